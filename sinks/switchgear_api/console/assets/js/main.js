import { App } from "./app.js";
import { html, render } from "./html.js";

const root = document.getElementById("app");
if (root) {
  root.replaceChildren();
  render(html`<${App} />`, root);
}
