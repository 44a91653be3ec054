// Runs before the first paint, so that a chosen theme does not flash the other one.
(() => {
  const read = () => { try { return localStorage.getItem("assay-theme"); } catch { return null; } };
  const apply = (theme) => {
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
  };
  apply(read());
  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("[data-theme-toggle]");
    if (!button) return;
    const dark = document.documentElement.dataset.theme
      ? document.documentElement.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    const next = dark ? "light" : "dark";
    try { localStorage.setItem("assay-theme", next); } catch { /* private mode: for this page only */ }
    apply(next);
  });
})();
