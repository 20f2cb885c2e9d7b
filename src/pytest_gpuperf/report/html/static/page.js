/* Which part is shown, the theme, printing. */
const articles = Array.from(document.querySelectorAll("article.subject"));

function route() {
  let wanted = "overview";
  try { wanted = decodeURIComponent(location.hash.slice(1)) || wanted; } catch { /* a hash that is no text */ }
  const all = wanted === "all";
  const target = all ? null : document.getElementById(wanted);
  const article = target && target.closest("article.subject") || document.getElementById("overview");
  for (const each of articles) each.hidden = !all && each !== article;
  const go = document.getElementById("go");
  if (go) go.value = all ? "all" : article.id;
  if (target && target !== article) target.scrollIntoView();
  else scrollTo(0, 0);
  // A plot that was hidden when the window changed has the old width.
  setTimeout(() => { dispatchEvent(new Event("resize")); drawBehind(); }, 0);
}

function setTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  const button = document.getElementById("theme");
  button.textContent = "Theme: " + theme;
  button.dataset.theme = theme;
  return redrawAll();
}

function setUpPage() {
  const go = document.getElementById("go");
  if (go) {
    go.append(make("option", { value: "all", textContent: "Everything (for printing)" }));
    go.addEventListener("change", () => { location.hash = go.value; });
  }
  addEventListener("hashchange", () => { route(); document.getElementById("main").focus({ preventScroll: true }); });
  const order = { auto: "light", light: "dark", dark: "auto" };
  document.getElementById("theme").addEventListener("click", event => setTheme(order[event.target.dataset.theme]));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
  document.getElementById("print").addEventListener("click", async () => { await drawShown(); print(); });
  let before = "auto";
  addEventListener("beforeprint", () => { before = document.getElementById("theme").dataset.theme; setTheme("light"); fitPaper(); });
  addEventListener("afterprint", () => { setTheme(before); dispatchEvent(new Event("resize")); });
  for (const part of document.querySelectorAll("details.part")) {
    part.addEventListener("toggle", () => dispatchEvent(new Event("resize")));
  }
  setTheme("auto");
  route();
}

setUpTables();
setUpTips();
setUpPage();
setUpPlots();
document.documentElement.dataset.ready = "1";
