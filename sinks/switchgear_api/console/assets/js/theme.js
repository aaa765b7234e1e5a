// Runs before the first paint, so that the page doesn't flash in the other theme. A classic script: modules run later.
(() => {
  const kept = localStorage.getItem("switchgear.theme");
  if (kept === "dark" || kept === "light") document.documentElement.dataset.theme = kept;
})();
