import { PAGES } from "../address.js";
import { UNAUTHORIZED } from "../api.js";
import { onAnnouncement } from "../announce.js";
import { html, useEffect, useState } from "../html.js";
import { listenToKeys } from "../keys.js";
import { useLive } from "../live.js";
import { currentSession, logOut } from "../session.js";
import { followLink, go } from "../state.js";
import { otherTheme, toggleTheme } from "../themes.js";
import { ActionDialogs } from "./action-dialog.js";
import { Freshness, LostBanner } from "./freshness.js";
import { Help } from "./help.js";
import { Icon, Mark } from "./icons.js";
import { Palette } from "./palette.js";
import { ProblemBanner } from "./problem-banner.js";
import { Toasts, toast } from "./toasts.js";

/** @param {1 | -1} step */
function moveFocus(step) {
  const links = /** @type {HTMLElement[]} */ ([
    ...document.querySelectorAll("main h3 a, main a[data-row], main [data-item]"),
  ]);
  const next = links[links.indexOf(/** @type {HTMLElement} */ (document.activeElement)) + step];
  (next ?? links[step > 0 ? 0 : links.length - 1])?.focus();
}

/** @param {{ route: { page: string, tool: string }, title: unknown, children?: unknown }} props */
export function Shell({ route, title, children }) {
  const [sheet, setSheet] = useState("");
  const [spoken, setSpoken] = useState("");
  const [, setTheme] = useState("");
  const live = useLive();
  const close = () => setSheet("");
  const theme = () => setTheme(toggleTheme());
  useEffect(() => {
    onAnnouncement(setSpoken);
    document.addEventListener("click", followLink);
    const stop = listenToKeys({
      go,
      search: () => setSheet("search"),
      help: () => setSheet("help"),
      theme,
      move: moveFocus,
    });
    return () => {
      stop();
      document.removeEventListener("click", followLink);
    };
  }, []);
  return html`<div class="shell">
    <a class="skip" href="#main">Skip to the content</a>
    <${Side} page=${route.page} onHelp=${() => setSheet("help")} onTheme=${theme} />
    <div class="body">
      <div class="top" role="region" aria-label="Page">
        <h1>${title}</h1>
        <div class="top-right">
          <${Freshness} />
          <button type="button" class="search-button" onClick=${() => setSheet("search")} aria-label="Search" aria-keyshortcuts="/"><${Icon} name="search" /><span>Search</span><kbd>/</kbd></button>
        </div>
      </div>
      <${LostBanner} />
      <${ProblemBanner} />
      <main id="main" tabindex="0" class=${live.connection === "lost" ? "old" : ""}>${children}</main>
    </div>
    <div class="hidden-text" role="status" aria-live="polite" id="announcements">${spoken}</div>
    ${sheet === "search" ? html`<${Palette} onClose=${close} />` : sheet === "help" ? html`<${Help} onClose=${close} />` : null}
    <${ActionDialogs} />
    <${Toasts} />
  </div>`;
}

/** @param {{ page: string, onHelp: () => void, onTheme: () => void }} props */
function Side({ page, onHelp, onTheme }) {
  const live = useLive();
  const { store } = live;
  const session = currentSession();
  const open = (store.fleet?.open ?? 0) + (store.fleet?.half_open ?? 0);
  const leave = async () => {
    try {
      await logOut();
    } catch (error) {
      toast({ title: "You are still logged in", text: /** @type {Error} */ (error).message });
      return;
    }
    go("/login");
    dispatchEvent(new Event(UNAUTHORIZED));
  };
  return html`<header class="side">
    <a class="brand" href="/" aria-label="Switchgear: now"><${Mark} /><span>Switchgear</span></a>
    <nav aria-label="Pages">
      <ul>
        ${PAGES.map(
          (
            each,
          ) => html`<li key=${each.name}><a href=${each.path} title=${`g ${each.key}`} aria-current=${page === each.name || (page === "tool" && each.name === "now") ? "page" : undefined}>
            <${Icon} name=${each.name} />${each.title}${each.name === "now" && open ? html`<span class="tally" aria-label=${`${open} not closed`}>${open}</span>` : null}
          </a></li>`,
        )}
      </ul>
    </nav>
    <div class="side-foot">
      <div class="who"><b title=${session?.name}>${session?.name ?? ""}</b><span>${session?.roles.includes("operate") || session?.roles.includes("admin") ? "Operator" : "Viewer"}${session?.tenant ? ` · ${session.tenant}` : ""}</span></div>
      <button type="button" class="icon-button" aria-label=${`Use the ${otherTheme()} theme`} title="Theme (T)" onClick=${onTheme}><${Icon} name=${otherTheme() === "dark" ? "moon" : "sun"} /></button>
      <button type="button" class="icon-button" aria-label="Keys and states" title="Help (?)" onClick=${onHelp}><${Icon} name="help" /></button>
      ${session && session.login !== "none" ? html`<button type="button" class="icon-button" aria-label="Log out" title="Log out" onClick=${leave}><${Icon} name="out" /></button>` : null}
    </div>
  </header>`;
}
