/* Tables: sorted by a column, filtered by words, downloaded with their raw values. */
function raw(cell) {
  return cell.dataset.v !== undefined ? Number(cell.dataset.v) : cell.firstChild ? cell.firstChild.textContent.trim() : "";
}

function compare(a, b) {
  const missing = v => v === "" || v === "-";
  if (missing(a) || missing(b)) return missing(a) - missing(b);
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), "en", { numeric: true });
}

function sortBy(table, index, button) {
  const head = button.closest("th");
  const down = head.getAttribute("aria-sort") === "ascending";
  for (const th of table.tHead.rows[0].cells) th.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  const body = table.tBodies[0];
  const rows = Array.from(body.rows, (row, i) => [raw(row.cells[index]), i, row]);
  const missing = v => v === "" || v === "-";
  rows.sort((x, y) => {
    const order = compare(x[0], y[0]);
    return (down && !missing(x[0]) && !missing(y[0]) ? -order : order) || x[1] - y[1];
  });
  body.append(...rows.map(r => r[2]));
  say("sorted by " + head.dataset.title + (down ? ", descending" : ", ascending"));
}

function filterRows(figure, words) {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  const table = figure.querySelector("table");
  const rows = table.tBodies[0].rows;
  // What is searched for may stand behind the rows that a long table begins with.
  const all = figure.querySelector("button.all");
  if (all) {
    table.classList.toggle("paged", !wanted.length);
    all.parentElement.hidden = wanted.length > 0;
  }
  let shown = 0;
  for (const row of rows) {
    const text = row.textContent.toLowerCase();
    row.hidden = !wanted.every(word => text.includes(word));
    shown += !row.hidden;
  }
  figure.querySelector(".count").textContent = wanted.length ? `${shown} of ${rows.length}` : "";
}

function tableCsv(table) {
  const heads = Array.from(table.tHead.rows[0].cells, th => th.dataset.title + (th.dataset.unit ? ` (${th.dataset.unit})` : ""));
  const rows = Array.from(table.tBodies[0].rows).filter(row => !row.hidden);
  return csv([heads, ...rows.map(row => Array.from(row.cells, raw))]);
}

/* A long table begins with its first rows: the others cost seconds before anything can be done. */
function setUpRest(table) {
  const count = table.tBodies[0].rows.length.toLocaleString("en");
  const button = make("button", { type: "button", className: "all", textContent: `Show all ${count} rows` });
  const line = make("p", { className: "more" }, button);
  button.addEventListener("click", () => {
    table.classList.remove("paged");
    line.remove();
    table.closest(".scroll").focus();
    say(`all ${count} rows are shown`);
  });
  table.closest(".scroll").after(line);
}

function setUpTables() {
  document.querySelectorAll("table.paged").forEach(setUpRest);
  for (const table of document.querySelectorAll("table.sortable")) {
    Array.from(table.tHead.rows[0].cells).forEach((th, index) => {
      th.dataset.title = th.textContent.trim();
      const button = make("button", { type: "button", className: "sort" });
      button.setAttribute("aria-label", "sort by " + th.dataset.title);
      button.addEventListener("click", () => sortBy(table, index, button));
      th.append(button);
    });
  }
  document.addEventListener("input", event => {
    if (event.target.matches("input.filter")) filterRows(event.target.closest("figure"), event.target.value);
  });
  document.addEventListener("click", event => {
    const button = event.target.closest("button.csv");
    if (!button) return;
    const figure = button.closest("figure");
    const table = figure.querySelector("table.sortable");
    const name = fileName(figure.querySelector("figcaption").textContent);
    if (table) download(name, tableCsv(table));
    else plotCsv(figure).then(text => download(name, text));
  });
}
