import { PAGES } from "../address.js";
import { html } from "../html.js";
import { STATES } from "../states.js";
import { Sheet } from "./sheet.js";
import { StateBadge } from "./state.js";

const KEYS = [
  ["/", "Search tools, pages and calls"],
  ["j k", "Next and previous tool of a list"],
  ["Enter", "Open what has the focus"],
  ["T", "Change the theme"],
  ["Esc", "Close a dialog"],
  ["?", "This help"],
];

/** @param {{ onClose: () => void }} props */
export function Help({ onClose }) {
  return html`<${Sheet} label="Help" onClose=${onClose} wide>
    <div class="sheet-body">
      <div class="sheet-head"><h2>Keys and states</h2></div>
      <div class="help">
        <table><caption>Keys</caption><tbody>
          ${KEYS.map(([keys, text]) => html`<tr key=${keys}><th scope="row">${keys?.split(" ").map((key) => html`<kbd>${key}</kbd> `)}</th><td>${text}</td></tr>`)}
          ${PAGES.map((page) => html`<tr key=${page.name}><th scope="row"><kbd>g</kbd> <kbd>${page.key}</kbd></th><td>${page.title}</td></tr>`)}
        </tbody></table>
        <table><caption>States</caption><tbody>
          ${Object.entries(STATES).map(([state, { meaning }]) => html`<tr key=${state}><th scope="row"><${StateBadge} state=${state} /></th><td>${meaning}</td></tr>`)}
        </tbody></table>
      </div>
    </div>
    <div class="sheet-foot"><button type="button" class="button primary" autofocus onClick=${onClose}>Close</button></div>
  <//>`;
}
