// Sets the theme before the first paint: ?theme=light|dark, then the saved choice, else the system's.
const asked = new URLSearchParams(location.search).get("theme") ?? localStorage.getItem("theme");
if (asked === "light" || asked === "dark") document.documentElement.dataset.theme = asked;

// The button in the bar turns the theme over and remembers the choice.
document.addEventListener("click", (event) => {
  if (!event.target.closest("[data-theme-toggle]")) return;
  const dark = document.documentElement.dataset.theme
    ? document.documentElement.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("theme", document.documentElement.dataset.theme);
});
