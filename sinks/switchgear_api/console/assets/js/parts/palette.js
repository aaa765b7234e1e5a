import { PAGES, address, toolAddress } from "../address.js";
import { html, useMemo, useState } from "../html.js";
import { listing, matcher } from "../listing.js";
import { live, useLive } from "../live.js";
import { go } from "../state.js";
import { stateLabel } from "../states.js";
import { Icon } from "./icons.js";
import { Sheet } from "./sheet.js";
import { StateShape, ToolName } from "./state.js";

const MOST = 40;

/** @typedef {{ path: string, text: string, note: string, state?: string, icon?: string }} Found */

/**
 * @param {string} text
 * @returns {Found[]}
 */
function search(text) {
  const matches = matcher(text);
  const pages = PAGES.filter((page) => matches(page.title)).map((page) => ({
    path: page.path,
    text: page.title,
    note: `g ${page.key}`,
    icon: page.name,
  }));
  const rows = listing(live.store.tools.values(), live.store.families, { filter: text, grouped: false });
  const tools = rows.slice(0, MOST).map((row) => ({
    path: toolAddress(row.kind === "tool" ? row.tool.tool : ""),
    text: row.kind === "tool" ? row.tool.tool : "",
    note: row.kind === "tool" ? stateLabel(row.tool.state) : "",
    state: row.kind === "tool" ? row.tool.state : "",
  }));
  const calls = text.trim()
    ? [
        {
          path: address("/calls", { text: text.trim() }),
          text: `Calls with “${text.trim()}”`,
          note: "",
          icon: "search",
        },
      ]
    : [];
  return text.trim() ? [...tools, ...pages, ...calls] : [...tools.slice(0, 8), ...pages];
}

/** @param {{ onClose: () => void }} props */
export function Palette({ onClose }) {
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const { store } = useLive();
  const found = useMemo(() => search(text), [text, store.orderRevision, store.tools.size]);
  const open = (/** @type {Found | undefined} */ each) => {
    if (!each) return;
    onClose();
    go(...split(each.path));
  };
  const onKey = (/** @type {KeyboardEvent} */ event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      const next = (at + step + found.length) % Math.max(1, found.length);
      setAt(next);
      document.getElementById(`found-${next}`)?.scrollIntoView({ block: "nearest" });
    } else if (event.key === "Enter") {
      event.preventDefault();
      open(found[at]);
    }
  };
  return html`<${Sheet} label="Search" onClose=${onClose}>
    <input class="palette-input" type="text" role="combobox" autofocus aria-label="Search tools and pages" aria-expanded="true" aria-controls="found" aria-activedescendant=${found.length ? `found-${at}` : undefined} placeholder="A tool, a glob like mcp:*, a page, or a text of calls" value=${text}
      onInput=${(/** @type {any} */ event) => {
        setText(event.target.value);
        setAt(0);
      }} onKeyDown=${onKey} />
    <ul class="palette-list" id="found" role="listbox" aria-label="Found">
      ${found.map(
        (
          each,
          index,
        ) => html`<li key=${each.path} id=${`found-${index}`} role="option" aria-selected=${index === at} onMouseMove=${() => setAt(index)} onClick=${() => open(each)}>
          ${each.state ? html`<${StateShape} state=${each.state} /><${ToolName} name=${each.text} />` : html`<${Icon} name=${each.icon ?? "right"} />${each.text}`}<small>${each.note}</small>
        </li>`,
      )}
    </ul>
  <//>`;
}

/** @param {string} path @returns {[string, Record<string, string>]} */
function split(path) {
  const [name, query] = path.split("?");
  return [name ?? "/", Object.fromEntries(new URLSearchParams(query ?? ""))];
}
