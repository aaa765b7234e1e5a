import { UNAUTHORIZED } from "./api.js";
import { PAGES } from "./address.js";
import { html, useEffect, useRef, useState } from "./html.js";
import { live } from "./live.js";
import { MissingPage } from "./pages/missing.js";
import { NowPage } from "./pages/now.js";
import { ErrorNotice, Loading } from "./parts/notices.js";
import { Shell } from "./parts/shell.js";
import { ToolName } from "./parts/state.js";
import { loadSession } from "./session.js";
import { go, useRoute } from "./state.js";

/** @import { ApiError } from "./api.js" */

/** @typedef {(props: any) => unknown} View */

/**
 * How the view of each page is loaded. The page `now` is what most people open, and comes with the application.
 * @type {Record<string, () => Promise<View>>}
 */
const LOADERS = {
  tool: () => import("./pages/tool.js").then((module) => module.ToolPage),
  timeline: () => import("./pages/timeline.js").then((module) => module.TimelinePage),
  lab: () => import("./pages/lab.js").then((module) => module.LabPage),
  calls: () => import("./pages/calls.js").then((module) => module.CallsPage),
  sql: () => import("./pages/sql.js").then((module) => module.SqlPage),
  dead: () => import("./pages/dead.js").then((module) => module.DeadPage),
  audit: () => import("./pages/audit.js").then((module) => module.AuditPage),
  system: () => import("./pages/system.js").then((module) => module.SystemPage),
  login: () => import("./pages/login.js").then((module) => module.LoginPage),
};
/** @type {Record<string, View>} */
const views = { now: NowPage, missing: MissingPage };

/** A page whose view could not be loaded. @param {Error} error @returns {View} */
const failed = (error) => () =>
  html`<div class="page"><${ErrorNotice} error=${error} retry=${() => location.reload()} /></div>`;

/** Return the view of a page, or one that says that it is loading. @param {string} page @returns {View} */
function useView(page) {
  const [, setRound] = useState(0);
  useEffect(() => {
    if (views[page]) return;
    void (LOADERS[page] ?? (() => Promise.resolve(MissingPage)))()
      .catch(failed)
      .then((view) => {
        views[page] = view;
        setRound((round) => round + 1);
      });
  }, [page]);
  return views[page] ?? Waiting;
}

const Waiting = () => html`<div class="page"><${Loading} rows=${8} /></div>`;

export function App() {
  const route = useRoute();
  const View = useView(route.page);
  const [ready, setReady] = useState(false);
  const [error, setError] = useState(/** @type {ApiError | null} */ (null));
  const name =
    route.page === "tool" ? route.tool : (PAGES.find((page) => page.name === route.page)?.title ?? "Switchgear");

  const enter = () =>
    loadSession().then(
      () => {
        setError(null);
        setReady(true);
        live.start();
      },
      (problem) => problem.status !== 401 && setError(problem),
    );

  useEffect(() => {
    const onUnauthorized = () => {
      live.stop();
      setReady(false);
      if (location.pathname !== "/login")
        go("/login", { next: location.pathname + location.search }, { replace: true });
    };
    addEventListener(UNAUTHORIZED, onUnauthorized);
    void enter();
    return () => removeEventListener(UNAUTHORIZED, onUnauthorized);
  }, []);

  const arrived = useRef(false);
  useEffect(() => {
    // A reader with a screen reader or a keyboard begins at the content of the new page.
    if (arrived.current) document.getElementById("main")?.focus({ preventScroll: true });
    arrived.current = ready;
  }, [route.page, route.tool, ready]);

  useEffect(() => {
    document.title = `${name} · Switchgear`;
  }, [name]);

  if (route.page === "login") return html`<${View} params=${route.params} onEntered=${enter} />`;
  if (!ready) return html`<div class="page"><${ErrorNotice} error=${error} retry=${enter} /></div>`;
  const title =
    route.page === "tool"
      ? html`<a href="/">Tools</a> <span class="quiet">/</span> <${ToolName} name=${route.tool} />`
      : name;
  return html`<${Shell} route=${route} title=${title}><${View} key=${route.page === "tool" ? `tool ${route.tool}` : route.page} route=${route} /><//>`;
}
