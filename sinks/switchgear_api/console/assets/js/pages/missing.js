import { html } from "../html.js";
import { Empty } from "../parts/notices.js";

export function MissingPage() {
  return html`<div class="page"><${Empty} title="There is no such page"><a class="link" href="/">Go to Now</a><//></div>`;
}
