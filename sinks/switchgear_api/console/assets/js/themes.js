/** Dark and light. Without a choice the theme is that of the system. */

export const THEMED = "switchgear:themed";
const KEY = "switchgear.theme";

export function currentTheme() {
  const chosen = document.documentElement.dataset.theme;
  if (chosen) return chosen;
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

export const otherTheme = () => (currentTheme() === "dark" ? "light" : "dark");

export function toggleTheme() {
  const theme = otherTheme();
  document.documentElement.dataset.theme = theme;
  localStorage.setItem(KEY, theme);
  dispatchEvent(new Event(THEMED));
  return theme;
}

/**
 * Return a colour of the theme as the browser computes it, for a canvas.
 * @param {string} name such as --ink
 */
export function themeColour(name) {
  const probe = document.createElement("i");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}
