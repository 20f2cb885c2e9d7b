/* Unit, formula and source of a metric: on hover, on focus, gone with Escape. */
function setUpTips() {
  const tip = document.getElementById("tip");
  let owner = null;
  const hide = () => {
    tip.hidden = true;
    if (owner) owner.removeAttribute("aria-describedby");
    owner = null;
  };
  const show = target => {
    const told = DATA.definitions[target.dataset.metric];
    if (!told) return;
    hide();
    owner = target;
    tip.replaceChildren(
      make("b", {}, target.dataset.metric), make("p", {}, told.formula),
      make("p", {}, `unit: ${told.unit}; ${told.better} is better; ${told.aggregate}`),
      make("p", {}, `source: ${told.source}`));
    tip.hidden = false;
    target.setAttribute("aria-describedby", "tip");
    const box = target.getBoundingClientRect();
    const left = Math.min(box.left, document.documentElement.clientWidth - tip.offsetWidth - 8);
    const below = box.bottom + tip.offsetHeight + 8 < window.innerHeight;
    tip.style.left = Math.max(left, 4) + window.scrollX + "px";
    tip.style.top = (below ? box.bottom + 4 : box.top - tip.offsetHeight - 4) + window.scrollY + "px";
  };
  for (const [kind, act] of [["mouseover", show], ["focusin", show]]) {
    document.addEventListener(kind, event => {
      const target = event.target.closest && event.target.closest(".def");
      if (target) act(target);
      else if (kind === "mouseover" && owner && !event.target.closest("#tip")) hide();
    });
  }
  document.addEventListener("focusout", hide);
  document.addEventListener("keydown", event => { if (event.key === "Escape") hide(); });
}
