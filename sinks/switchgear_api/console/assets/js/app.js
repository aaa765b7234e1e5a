import { UNAUTHORIZED } from "./api.js";
import { PAGES } from "./address.js";
import { html, useEffect, useRef, useState } from "./html.js";
import { live } from "./live.js";
import { AuditPage } from "./pages/audit.js";
import { CallsPage } from "./pages/calls.js";
import { DeadPage } from "./pages/dead.js";
import { LabPage } from "./pages/lab.js";
import { LoginPage } from "./pages/login.js";
import { MissingPage } from "./pages/missing.js";
import { NowPage } from "./pages/now.js";
import { SqlPage } from "./pages/sql.js";
import { SystemPage } from "./pages/system.js";
import { TimelinePage } from "./pages/timeline.js";
import { ToolPage } from "./pages/tool.js";
import { ErrorNotice } from "./parts/notices.js";
import { Shell } from "./parts/shell.js";
import { ToolName } from "./parts/state.js";
import { forgetToasts } from "./parts/toasts.js";
import { loadSession } from "./session.js";
import { go, useRoute } from "./state.js";

/** @import { ApiError } from "./api.js" */

/** @type {Record<string, (props: any) => unknown>} */
const VIEWS = {
  now: NowPage,
  tool: ToolPage,
  timeline: TimelinePage,
  lab: LabPage,
  calls: CallsPage,
  sql: SqlPage,
  dead: DeadPage,
  audit: AuditPage,
  system: SystemPage,
  missing: MissingPage,
};

export function App() {
  const route = useRoute();
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
      forgetToasts();
      setReady(false);
      if (location.pathname !== "/login")
        go("/login", { next: location.pathname + location.search }, { replace: true });
    };
    addEventListener(UNAUTHORIZED, onUnauthorized);
    void enter();
    return () => removeEventListener(UNAUTHORIZED, onUnauthorized);
  }, []);

  const begun = useRef(false);
  useEffect(() => {
    // Back from the login to a page that needs it.
    if (begun.current && !ready && route.page !== "login") void enter();
    begun.current = true;
  }, [route.page]);

  const arrived = useRef(false);
  useEffect(() => {
    // A reader with a screen reader or a keyboard begins at the content of the new page.
    const main = document.getElementById("main");
    if (arrived.current) main?.focus({ preventScroll: true });
    main?.scrollTo(0, 0);
    arrived.current = ready;
  }, [route.page, route.tool, ready]);

  useEffect(() => {
    document.title = `${name} · Switchgear`;
  }, [name]);

  if (route.page === "login") return html`<${LoginPage} params=${route.params} onEntered=${enter} />`;
  if (!ready) return html`<div class="page"><${ErrorNotice} error=${error} retry=${enter} /></div>`;
  const View = VIEWS[route.page] ?? MissingPage;
  const title =
    route.page === "tool"
      ? html`<a href="/">Tools</a> <span class="quiet">/</span> <${ToolName} name=${route.tool} />`
      : name;
  return html`<${Shell} route=${route} title=${title}><${View} key=${route.page === "tool" ? `tool ${route.tool}` : route.page} route=${route} /><//>`;
}
