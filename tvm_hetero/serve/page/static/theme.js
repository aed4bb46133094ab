// Light or dark: as the system says, until the button says otherwise.

const KEPT = "tvm_hetero.theme";
const system = window.matchMedia("(prefers-color-scheme: dark)");

function chosen() {
  return localStorage.getItem(KEPT);
}

function isDark() {
  return (chosen() ?? (system.matches ? "dark" : "light")) === "dark";
}

function apply(button) {
  if (chosen() !== null) {
    document.documentElement.dataset.theme = chosen();
  }
  button.textContent = isDark() ? "Light" : "Dark";
  button.setAttribute("aria-label", isDark() ? "Use light colours" : "Use dark colours");
}

/** Let the button switch; what it says is what it leads to. */
export function startTheme(button) {
  button.addEventListener("click", () => {
    localStorage.setItem(KEPT, isDark() ? "light" : "dark");
    apply(button);
  });
  system.addEventListener("change", () => apply(button));
  apply(button);
}
