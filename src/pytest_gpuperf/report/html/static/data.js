"use strict";
/* The data of the page: read once; arrays are unpacked when a plot is first shown. */
const DATA = JSON.parse(document.getElementById("data").textContent);
const TYPES = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, f4: Float32Array, f8: Float64Array };

/* An array as Python packed it: base64, deflate, bytes of equal weight together, differences. */
async function unpack(packed) {
  if (Array.isArray(packed)) return packed;
  const text = atob(packed.z);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  const flat = new Uint8Array(await new Response(stream).arrayBuffer());
  const Type = TYPES[packed.t], width = Type.BYTES_PER_ELEMENT, n = packed.n;
  const joined = new Uint8Array(n * width);
  for (let b = 0; b < width; b++) for (let i = 0; i < n; i++) joined[i * width + b] = flat[b * n + i];
  const values = new Type(joined.buffer);
  if (packed.d) for (let i = 1; i < n; i++) values[i] += values[i - 1];
  return values;
}

function make(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(properties)) {
    if (key in made && key !== "role") made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

function say(text) { document.getElementById("said").textContent = text; }

/* A file from text made here: nothing is fetched, so the page's policy has nothing to forbid. */
function download(name, text, type = "text/csv;charset=utf-8") {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = make("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

function fileName(title) {
  return (title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 60) || "data") + ".csv";
}

/* One field of CSV. A text that a spreadsheet would take for a formula is marked as text. */
function field(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return Number.isFinite(value) ? String(value) : "";
  let text = String(value);
  if (/^[=+@\-\t]/.test(text) && !/^[+\-]?[0-9.,]+%?$/.test(text)) text = "'" + text;
  return /[",\n\r]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
}

function csv(rows) { return rows.map(row => row.map(field).join(",")).join("\r\n") + "\r\n"; }

/* Three significant digits and more where they tell two numbers apart. */
function short(value, digits = 4) {
  if (!Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  const size = Math.floor(Math.log10(Math.abs(value)));
  if (size < -4 || size > 9) return value.toExponential(digits - 1);
  return value.toLocaleString("en", { maximumFractionDigits: Math.max(digits - 1 - size, 0) });
}

function shortTime(us) {
  const size = Math.abs(us);
  if (size >= 1e6) return short(us / 1e6) + " s";
  if (size >= 1e3) return short(us / 1e3) + " ms";
  if (size >= 1 || us === 0) return short(us) + " µs";
  return short(us * 1e3) + " ns";
}

function css(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }
