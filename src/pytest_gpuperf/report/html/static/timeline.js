/* The timeline: a row a stream, drawn from bins at any zoom and from single events where few. */
function below(values, at) {
  let low = 0, high = values.length;
  while (low < high) { const mid = (low + high) >> 1; if (values[mid] < at) low = mid + 1; else high = mid; }
  return low;
}

async function rowOf(spec, row) {
  const bins = await Promise.all(row.bins.map(unpack));
  const sums = bins.map(values => {
    const made = new Float64Array(spec.bins + 1);
    for (let i = 0; i < spec.bins; i++) made[i + 1] = made[i] + values[i] / 255;
    return made;
  });
  const made = { label: row.label, classes: row.classes, sums, all: row.all, of: row.of || 0 };
  if (!row.start) return made;
  const [start, length, name, kind] = await Promise.all([row.start, row.length, row.name, row.kind].map(unpack));
  const n = start.length;
  Object.assign(made, { start: new Float64Array(n), end: new Float64Array(n), reach: new Float64Array(n), name, kind });
  let reach = 0;
  for (let i = 0; i < n; i++) {
    made.start[i] = start[i] * spec.unit_us;
    made.end[i] = made.start[i] + length[i] * spec.unit_us;
    made.reach[i] = reach = Math.max(reach, made.end[i]);
  }
  return made;
}

/* Filled time of a class up to `at`, in bins: linear within a bin. */
function upTo(sums, at) {
  const bins = sums.length - 1;
  if (at <= 0) return 0;
  if (at >= bins) return sums[bins];
  const i = Math.floor(at);
  return sums[i] + (sums[i + 1] - sums[i]) * (at - i);
}

/* A colour and a pattern for each class: told apart without colour. */
function fills(ctx) {
  const made = {}, scale = devicePixelRatio;
  const pattern = (colour, paint) => {
    const tile = make("canvas", { width: 8 * scale, height: 8 * scale }), t = tile.getContext("2d");
    t.scale(scale, scale);
    t.fillStyle = colour; t.fillRect(0, 0, 8, 8);
    t.fillStyle = t.strokeStyle = css("--patterned");
    paint(t);
    return ctx.createPattern(tile, "repeat");
  };
  const lines = (...ends) => t => { t.lineWidth = 1.6; t.beginPath(); for (const [a, b, c, d] of ends) { t.moveTo(a, b); t.lineTo(c, d); } t.stroke(); };
  made.compute = css("--compute");
  made.comm = pattern(css("--comm"), lines([-2, 2, 2, -2], [0, 8, 8, 0], [6, 10, 10, 6]));
  made.memory = pattern(css("--memory"), t => { t.beginPath(); t.arc(4, 4, 1.6, 0, 7); t.fill(); });
  made.host = pattern(css("--host"), lines([0, 4, 8, 4]));
  made.latency = pattern(css("--latency"), lines([4, 0, 4, 8]));
  made.dependency = pattern(css("--dependency"), lines([4, 0, 4, 8], [0, 4, 8, 4]));
  made.unknown = css("--unknown");
  return made;
}

const NAMED = { compute: "compute", comm: "communication", memory: "copies and fills", host: "idle, host-bound", latency: "idle, launch latency", dependency: "idle, dependency", unknown: "idle, unknown" };

function drawRow(ctx, row, box, view, spec, paint) {
  const { left, width, top, height } = box, span = view.b - view.a;
  const scale = spec.bins / spec.length_us, seen = [0, 0];
  if (row.start) {
    seen[0] = below(row.reach, view.a);
    seen[1] = below(row.start, view.b);
  }
  const few = row.start && seen[1] - seen[0] <= 3 * width;
  if (!(few && row.all)) {
    // The share of each class in a column is the height of its part; equal columns are one.
    ctx.globalAlpha = few ? 0.35 : 1;
    let from = 0, before = null;
    const flush = x => {
      if (!before) return;
      let base = top + height;
      before.forEach((share, c) => {
        if (!share) return;
        const h = Math.max(share / 100 * height, 1);
        ctx.fillStyle = paint[row.classes[c]];
        ctx.fillRect(left + from, Math.max(base - h, top), x - from, Math.min(h, base - top));
        base -= h;
      });
    };
    for (let x = 0; x <= width; x++) {
      const a = (view.a + span * x / width) * scale, b = (view.a + span * (x + 1) / width) * scale;
      const now = x < width ? row.sums.map(s => { const v = (upTo(s, b) - upTo(s, a)) / (b - a); return v <= 0 ? 0 : Math.max(Math.round(v * 100), 1); }) : null;
      if (now && before && now.every((v, i) => v === before[i])) continue;
      flush(x);
      from = x;
      before = now;
    }
    ctx.globalAlpha = 1;
  }
  if (few) {
    ctx.font = "11px system-ui, sans-serif";
    ctx.textBaseline = "middle";
    for (let i = seen[0]; i < seen[1]; i++) {
      const x = left + (row.start[i] - view.a) / span * width, w = Math.max((row.end[i] - row.start[i]) / span * width, 1);
      const a = Math.max(x, left), b = Math.min(x + w, left + width);
      if (b <= a) continue;
      ctx.fillStyle = paint[spec.kinds[row.kind[i]]];
      ctx.fillRect(a, top, Math.max(b - a - (b - a > 4 ? 0.5 : 0), 0.7), height);
      if (b - a > 46 && height > 13) {
        ctx.save();
        ctx.beginPath(); ctx.rect(a + 2, top, b - a - 5, height); ctx.clip();
        ctx.fillStyle = css("--paper"); ctx.fillRect(a + 3, top + 3, Math.min(ctx.measureText(spec.names[row.name[i]]).width + 4, b - a - 8), height - 6);
        ctx.fillStyle = css("--ink"); ctx.fillText(spec.names[row.name[i]], a + 5, top + height / 2);
        ctx.restore();
      }
    }
  }
}

/* Round times for the axis. */
function timeTicks(a, b, count) {
  const raw = (b - a) / count, base = 10 ** Math.floor(Math.log10(raw));
  const step = base * [1, 2, 5, 10].find(m => base * m >= raw * 0.999);
  const made = [];
  for (let i = Math.ceil(a / step); i * step <= b && made.length < 50; i++) made.push(i * step);
  return made;
}

async function drawTimeline(figure, spec) {
  const rows = [];
  for (const row of spec.rows) rows.push(await rowOf(spec, row));
  const room = figure.querySelector(".canvas");
  room.classList.add("track");
  const canvas = make("canvas"), hover = make("div", { className: "hover", hidden: true });
  room.append(canvas, hover);
  const ctx = canvas.getContext("2d");
  const each = rows.length > 40 ? 9 : rows.length > 16 ? 14 : 24, head = 34, gap = rows.length > 40 ? 1 : 4;
  const view = { a: 0, b: spec.length_us };
  let width = 0, left = 0, waiting = false;
  const smallest = Math.max(spec.length_us * 1e-7, spec.unit_us * 20);
  const labelled = i => each > 11 || i % Math.ceil(12 / (each + gap)) === 0;

  let paper = 0;
  function paintAll() {
    waiting = false;
    const began = performance.now();
    const height = head + rows.length * (each + gap) + 6;
    const full = paper || Math.max(room.clientWidth, 260), scale = devicePixelRatio;
    left = Math.min(150, Math.round(full * 0.28));
    width = full - left - 2;
    canvas.width = Math.round(full * scale); canvas.height = Math.round(height * scale);
    canvas.style.width = full + "px"; canvas.style.height = height + "px";
    ctx.setTransform(scale, 0, 0, scale, 0, 0);
    ctx.fillStyle = css("--paper"); ctx.fillRect(0, 0, full, height);
    const span = view.b - view.a, at = t => left + (t - view.a) / span * width;
    ctx.font = "12px system-ui, sans-serif"; ctx.textBaseline = "alphabetic";
    ctx.fillStyle = css("--soft"); ctx.strokeStyle = css("--line"); ctx.lineWidth = 1;
    for (const t of timeTicks(view.a, view.b, Math.max(width / 110, 2))) {
      const x = Math.round(at(t)) + 0.5;
      ctx.beginPath(); ctx.moveTo(x, head - 4); ctx.lineTo(x, height); ctx.stroke();
      const text = shortTime(t), w = ctx.measureText(text).width;
      ctx.fillText(text, Math.min(Math.max(x - w / 2, left), full - w - 2), 12);
    }
    const paint = fills(ctx);
    rows.forEach((row, i) => {
      const top = head + i * (each + gap);
      ctx.fillStyle = css("--card"); ctx.fillRect(left, top, width, each);
      drawRow(ctx, row, { left, width, top, height: each }, view, spec, paint);
      if (!labelled(i)) return;
      ctx.fillStyle = css("--ink"); ctx.font = "12px system-ui, sans-serif"; ctx.textBaseline = "middle";
      let text = row.label;
      while (text.length > 3 && ctx.measureText(text).width > left - 8) text = text.slice(0, -2).trimEnd() + "…";
      ctx.fillText(text, 0, top + each / 2);
    });
    ctx.textBaseline = "alphabetic";
    let free = -1;
    for (const [name, from, to] of spec.steps) {
      if (to < view.a || from > view.b) continue;
      const x = Math.max(at(from), left), end = Math.min(at(to), left + width);
      ctx.strokeStyle = css("--m-baseline"); ctx.lineWidth = 1.5;
      if (from >= view.a) { ctx.beginPath(); ctx.moveTo(x, 16); ctx.lineTo(x, height); ctx.stroke(); }
      ctx.fillStyle = css("--m-baseline");
      if (x > free && end - x > 8) { ctx.fillText(name, x + 3, 27); free = x + ctx.measureText(name).width + 8; }
    }
    canvas.dataset.ms = (performance.now() - began).toFixed(1);
  }
  const soon = () => { if (!waiting) { waiting = true; requestAnimationFrame(paintAll); } };
  function set(a, b) {
    const span = Math.min(Math.max(b - a, smallest), spec.length_us);
    view.a = Math.min(Math.max(a, 0), spec.length_us - span);
    view.b = view.a + span;
    figure.dataset.range = `${view.a} ${view.b}`;
    soon();
  }
  function pointed(event) {
    const box = canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    const i = Math.floor((y - head) / (each + gap)), t = view.a + (x - left) / width * (view.b - view.a);
    return { x, y, t, row: x >= left && i >= 0 ? rows[i] : undefined };
  }
  function under(row, t) {
    if (row.start) {
      for (let i = below(row.start, t) - 1, n = 0; i >= 0 && n < 400 && row.reach[i] >= t; i--, n++) {
        if (row.end[i] >= t) return `${spec.names[row.name[i]]}: ${shortTime(row.end[i] - row.start[i])} from ${shortTime(row.start[i])} (${NAMED[spec.kinds[row.kind[i]]]})`;
      }
      if (row.all) return "";
    }
    const scale = spec.bins / spec.length_us, w = Math.max((view.b - view.a) / width, 1 / scale);
    const parts = row.sums.map((s, c) => [upTo(s, (t + w / 2) * scale) - upTo(s, (t - w / 2) * scale), row.classes[c]])
      .filter(p => p[0] > 0).map(p => `${NAMED[p[1]]} ${short(100 * p[0] / (w * scale), 3)}%`);
    return parts.length ? `${parts.join(", ")} of ${shortTime(w)}` : "";
  }
  let dragged = null;
  canvas.addEventListener("pointermove", event => {
    const p = pointed(event);
    if (dragged) {
      const by = (dragged.x - p.x) / width * (dragged.b - dragged.a);
      set(dragged.a + by, dragged.b + by);
      return;
    }
    const said = p.row ? under(p.row, p.t) : "";
    hover.hidden = !p.row;
    hover.textContent = p.row ? `${p.row.label}, ${shortTime(p.t)}${said ? ": " + said : ": nothing ran"}` : "";
    hover.style.left = Math.min(p.x + 12, Math.max(width + left - 320, 0)) + "px";
    hover.style.top = p.y + 16 + "px";
  });
  canvas.addEventListener("pointerleave", () => { hover.hidden = true; });
  canvas.addEventListener("pointerdown", event => { dragged = { x: pointed(event).x, ...view }; canvas.setPointerCapture(event.pointerId); hover.hidden = true; });
  for (const kind of ["pointerup", "pointercancel"]) canvas.addEventListener(kind, () => { dragged = null; });
  canvas.addEventListener("dblclick", event => { const { t } = pointed(event), h = (view.b - view.a) / 8; set(t - h, t + h); });
  canvas.addEventListener("wheel", event => {
    // The page scrolls as ever; with a modifier the wheel zooms where the pointer is.
    if (!(event.ctrlKey || event.shiftKey || event.metaKey)) return;
    event.preventDefault();
    const { t } = pointed(event), f = (event.deltaY || event.deltaX) > 0 ? 1.25 : 0.8;
    set(t - (t - view.a) * f, t + (view.b - t) * f);
  }, { passive: false });

  function toStep(by) {
    if (!spec.steps.length) return;
    const middle = (view.a + view.b) / 2;
    let now = spec.steps.findIndex(([, a, b]) => middle >= a && middle < b);
    const whole = view.b - view.a > spec.length_us * 0.999;
    now = whole ? (by > 0 ? 0 : spec.steps.length - 1) : Math.min(Math.max(now + by, 0), spec.steps.length - 1);
    const [name, a, b] = spec.steps[now], pad = (b - a) * 0.03;
    set(a - pad, b + pad);
    say(`step ${name}`);
  }
  paintAll();
  return {
    zoom(f) { const m = (view.a + view.b) / 2, h = (view.b - view.a) * f / 2; set(m - h, m + h); },
    pan(f) { const by = (view.b - view.a) * f; set(view.a + by, view.b + by); },
    reset() { set(0, spec.length_us); },
    redraw: paintAll, resize(wide) { paper = wide === PAPER ? wide : 0; paintAll(); }, range: () => [view.a, view.b], set,
    next: spec.steps.length ? () => toStep(1) : undefined, previous: spec.steps.length ? () => toStep(-1) : undefined,
  };
}
KINDS.timeline = drawTimeline;

/* Single events where the page has them all, else the share of each class in each bin. */
async function timelineCsv(spec) {
  const rows = [["row", "what", "start (us)", "length (us)", "share"]];
  for (const packed of spec.rows) {
    const row = await rowOf(spec, packed);
    if (row.start && row.all) {
      for (let i = 0; i < row.start.length; i++) rows.push([row.label, spec.names[row.name[i]], row.start[i], row.end[i] - row.start[i], 1]);
      continue;
    }
    const wide = spec.length_us / spec.bins;
    row.classes.forEach((kind, c) => {
      for (let i = 0; i < spec.bins; i++) {
        const share = row.sums[c][i + 1] - row.sums[c][i];
        if (share > 0) rows.push([row.label, NAMED[kind], i * wide, wide, Math.round(share * 255) / 255]);
      }
    });
  }
  return csv(rows);
}
