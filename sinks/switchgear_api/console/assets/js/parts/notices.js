import { html } from "../html.js";

/** @import { ApiError } from "../api.js" */

/** @param {{ error: ApiError | Error | null, retry?: () => void }} props */
export function ErrorNotice({ error, retry }) {
  if (!error) return null;
  const hint = /** @type {{ hint?: string }} */ (error).hint;
  return html`<div class="notice bad" role="alert">
    <div><b>${error.message}</b>${hint ? html`<p>${hint}</p>` : null}</div>
    ${retry ? html`<button type="button" class="button" onClick=${retry}>Try again</button>` : null}
  </div>`;
}

/** @param {{ title: string, children?: unknown }} props */
export function Empty({ title, children }) {
  return html`<div class="empty"><b>${title}</b><p>${children}</p></div>`;
}

/** @param {{ rows?: number }} props */
export function Loading({ rows = 4 }) {
  return html`<div class="loading" role="status"><span class="hidden-text">Loading</span>${Array.from({ length: rows }, () => html`<i></i>`)}</div>`;
}

/** What to show for a resource: the error, the wait, nothing found, or its data. */
export function Loaded(
  /** @type {{ resource: { data: any, error: any, loading: boolean, reload: () => void }, rows?: number, children: (data: any) => unknown }} */ {
    resource,
    rows = 4,
    children,
  },
) {
  return html`
    <${ErrorNotice} error=${resource.error} retry=${resource.reload} />
    ${resource.data !== null ? children(resource.data) : resource.loading ? html`<${Loading} rows=${rows} />` : null}
  `;
}
