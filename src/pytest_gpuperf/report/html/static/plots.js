/* Series over an axis, drawn by uPlot; zoomed with the mouse, buttons or keys. */
const DRAWN = new Map();
const COLOURS = ["--c1", "--c2", "--c3", "--c4", "--c5", "--c6", "--c7", "--c8"];

/* The columns of a plot: as they are stored, or in the units of its axes. */
async function seriesOf(spec, shown) {
  const fx = shown && spec.x.factor || 1, fy = shown && spec.y.factor || 1;
  const y = await Promise.all(spec.series.map(s => unpack(s.values)));
  const x = Array.from(await unpack(spec.x.values), v => v / fx);
  return [x, ...y.map(values => Array.from(values, v => (v === -1 && spec.gaps ? null : v / fy)))];
}

function marksOf(spec) {
  return (spec.marks || []).map(m => ({ ...m, at: m.at / ((m.axis === "x" ? spec.x.factor : spec.y.factor) || 1) }));
}

function drawMarks(u, spec) {
  const { ctx } = u, { left, top, width, height } = u.bbox;
  ctx.save();
  ctx.beginPath();
  ctx.rect(left, top, width, height);
  ctx.clip();
  if (spec.band) {
    const f = spec.y.factor || 1;
    const high = u.valToPos(spec.band.high / f, "y", true), low = u.valToPos(spec.band.low / f, "y", true);
    ctx.fillStyle = css("--band");
    ctx.fillRect(left, high, width, Math.max(low - high, 1));
  }
  const dash = { limit: [8, 4], median: [], baseline: [2, 3], peak: [4, 2] };
  for (const mark of marksOf(spec)) {
    ctx.strokeStyle = css("--m-" + mark.kind);
    ctx.lineWidth = 2 * devicePixelRatio;
    ctx.setLineDash((dash[mark.kind] || []).map(d => d * devicePixelRatio));
    ctx.beginPath();
    if (mark.axis === "x") {
      const at = u.valToPos(mark.at, "x", true);
      ctx.moveTo(at, top); ctx.lineTo(at, top + height);
    } else {
      const at = u.valToPos(mark.at, "y", true);
      ctx.moveTo(left, at); ctx.lineTo(left + width, at);
    }
    ctx.stroke();
  }
  ctx.restore();
}

function pathsOf(style, fill) {
  if (style === "points") return { paths: () => null, points: { show: true, size: 5, fill } };
  if (style === "step") return { paths: uPlot.paths.stepped({ align: 1 }), points: { show: false } };
  return { points: { show: style === "line+points" } };
}

function optionsOf(spec, width) {
  const axis = { stroke: () => css("--ink"), grid: { stroke: () => css("--line"), width: 1 }, ticks: { stroke: () => css("--line") }, font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif" };
  const shown = v => v === null || v === undefined ? "–" : short(v, 5);
  const marked = marksOf(spec).filter(m => m.axis !== "x").map(m => m.at);
  return {
    width, height: spec.height || 220,
    scales: {
      x: { time: false },
      y: { range: (u, low, high) => {
        if (low === null) return [0, 1];
        const near = marked.filter(at => at <= 2 * high && at >= 0.5 * low);
        const a = spec.y.zero ? 0 : Math.min(low, ...near), b = Math.max(high, ...near);
        const pad = (b - a) * 0.06 || Math.abs(b) * 0.1 || 1;
        return [spec.y.zero ? Math.min(a, 0) : a - pad, spec.y.top ? Math.max(b, spec.y.top) : b + pad];
      } },
    },
    axes: [
      { ...axis, ...(spec.x.whole ? { incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 1e5, 1e6] } : {}), label: spec.x.label, labelSize: 18, size: 34, values: (u, splits) => splits.map(shown) },
      { ...axis, label: spec.y.label, labelSize: 18, size: 58, values: (u, splits) => splits.map(shown) },
    ],
    series: [
      { label: spec.x.label, value: (u, v) => shown(v) },
      ...spec.series.map((s, i) => ({
        label: s.label, stroke: () => css(COLOURS[i % 8]), width: 1.5, dash: i > 3 ? [6, 3] : i > 1 ? [2, 2] : undefined,
        fill: s.style === "area" ? () => css(COLOURS[i % 8]) + "33" : undefined,
        value: (u, v) => shown(v), spanGaps: false, ...pathsOf(s.style, () => css(COLOURS[i % 8])),
      })),
    ],
    cursor: { sync: spec.sync ? { key: spec.sync } : undefined, drag: { x: true, y: false } },
    hooks: { drawClear: [u => drawMarks(u, spec)] },
    legend: { live: true },
  };
}

/* Each series on the one before: drawn from the highest down, told by its own value. */
function stacked(options, data) {
  const own = data.slice(1), n = data[0].length, sum = new Array(n).fill(0);
  const raised = own.map(values => values.map((v, i) => (sum[i] += v || 0)));
  options.series.slice(1).forEach((series, i) => {
    series.value = (u, v, s, at) => at === null || at === undefined ? "–" : short(own[i][at], 5);
    series.fill = () => css(COLOURS[i % 8]);
    series.dash = undefined;
  });
  options.series = [options.series[0], ...options.series.slice(1).reverse()];
  data.splice(1, own.length, ...raised.reverse());
}

function viewOf(u) {
  const all = u.data[0], ends = [all[0], all[all.length - 1]];
  let at = ends;
  const set = (min, max) => {
    at = [Math.max(min, ends[0]), Math.min(max, ends[1])];
    u.setScale("x", { min: at[0], max: at[1] });
  };
  const now = () => at;
  // A drag with the mouse sets the scale too.
  u.hooks.setScale = [(_, key) => { if (key === "x") at = [u.scales.x.min, u.scales.x.max]; }];
  return {
    zoom(f) { const [a, b] = now(), m = (a + b) / 2, h = (b - a) * f / 2; if (h > 0) set(m - h, m + h); },
    pan(f) {
      const [a, b] = now(), w = b - a, by = Math.max(Math.min(w * f, ends[1] - b), ends[0] - a);
      set(a + by, b + by);
    },
    reset() { set(ends[0], ends[1]); },
    redraw() { u.redraw(false); },
    resize(width) { u.setSize({ width, height: u.height }); },
    range: now, plot: u,
  };
}

async function drawSeries(figure, spec) {
  const room = figure.querySelector(".canvas");
  const data = await seriesOf(spec, true);
  const options = optionsOf(spec, Math.max(room.clientWidth, 260));
  if (spec.stack) stacked(options, data);
  const u = new uPlot(options, data, room);
  return viewOf(u);
}

const KINDS = { series: drawSeries };

async function draw(figure) {
  const key = figure.dataset.plot;
  if (!DRAWN.has(key)) {
    const spec = DATA.plots[key];
    DRAWN.set(key, KINDS[spec.kind](figure, spec).then(view => { controls(figure, view); return view; }));
  }
  return DRAWN.get(key);
}

function controls(figure, view) {
  const tools = figure.querySelector(".tools"), title = figure.querySelector("figcaption").textContent.trim();
  const add = (label, name, act) => {
    const button = make("button", { type: "button", className: "zoom", textContent: label });
    button.setAttribute("aria-label", `${name}: ${title}`);
    button.title = name;
    button.addEventListener("click", () => { act(); tell(); });
    tools.prepend(button);
  };
  const tell = () => { const [a, b] = view.range(); figure.dataset.range = `${a} ${b}`; };
  if (view.previous) {
    add("Next step ›", "next step", () => view.next());
    add("‹ Step", "previous step", () => view.previous());
  }
  add("Reset", "show everything", () => view.reset());
  add("−", "zoom out", () => view.zoom(2));
  add("+", "zoom in", () => view.zoom(0.5));
  const room = figure.querySelector(".canvas");
  room.tabIndex = 0;
  room.addEventListener("keydown", event => {
    const keys = {
      "+": () => view.zoom(0.5), "=": () => view.zoom(0.5), "-": () => view.zoom(2), "0": () => view.reset(), Home: () => view.reset(),
      ArrowLeft: () => view.pan(-0.2), ArrowRight: () => view.pan(0.2),
      n: () => view.next && view.next(), p: () => view.previous && view.previous(),
    };
    if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    keys[event.key]();
    tell();
  });
  tell();
}

async function plotCsv(figure) {
  const spec = DATA.plots[figure.dataset.plot];
  if (spec.kind === "timeline") return timelineCsv(spec);
  const columns = await seriesOf(spec, false);
  const head = [spec.x.label.split(",")[0] + (spec.x.unit ? ` (${spec.x.unit})` : ""), ...spec.series.map(s => s.label + (spec.y.unit ? ` (${spec.y.unit})` : ""))];
  return csv([head, ...columns[0].map((_, i) => columns.map(c => c[i]))]);
}

async function drawShown() {
  const shown = Array.from(document.querySelectorAll("figure.plot")).filter(f => f.offsetParent !== null);
  await Promise.all(shown.map(draw));
  return shown.length;
}

/* What is shown is drawn while nobody waits: a print that the browser begins cannot wait for it. */
let turn = 0;
async function drawBehind() {
  const mine = ++turn;
  for (const figure of document.querySelectorAll("figure.plot")) {
    if (figure.offsetParent === null) continue;
    await new Promise(resolve => setTimeout(resolve, 30));
    if (mine !== turn) return;
    await draw(figure);
  }
}

let drawSoon = null;
function setUpPlots() {
  const near = new IntersectionObserver(entries => {
    for (const entry of entries) if (entry.isIntersecting) { near.unobserve(entry.target); draw(entry.target); }
  }, { rootMargin: "400px" });
  for (const figure of document.querySelectorAll("figure.plot")) near.observe(figure);
  addEventListener("resize", () => {
    clearTimeout(drawSoon);
    drawSoon = setTimeout(async () => {
      for (const [key, view] of DRAWN) {
        const room = document.querySelector(`[data-plot="${key}"] .canvas`);
        if (room.clientWidth) (await view).resize(Math.max(room.clientWidth, 260));
      }
    }, 120);
  });
}

/* Paper is narrower than most windows: a wider picture would be cut off at its edge. */
const PAPER = 660;
async function fitPaper() { for (const view of DRAWN.values()) (await view).resize(PAPER); }
async function redrawAll() { for (const view of DRAWN.values()) (await view).redraw(); }
