import { address, safeNext } from "../address.js";
import { request } from "../api.js";
import { html, useEffect, useState } from "../html.js";
import { Mark } from "../parts/icons.js";
import { ErrorNotice } from "../parts/notices.js";
import { logIn } from "../session.js";
import { go } from "../state.js";

/** @param {{ params: Record<string, string>, onEntered: () => Promise<unknown> }} props */
export function LoginPage({ params, onEntered }) {
  const [token, setToken] = useState("");
  const [oidc, setOidc] = useState(false);
  const [error, setError] = useState(/** @type {Error | null} */ (null));
  const [busy, setBusy] = useState(false);
  const next = safeNext(params.next);

  const enter = async () => {
    await onEntered();
    const target = new URL(next, location.origin);
    go(target.pathname, Object.fromEntries(target.searchParams), { replace: true });
  };
  useEffect(() => {
    document.title = "Log in · Switchgear";
    // A session may exist already. The answer without one says whether the issuer of a company can log people in.
    request("GET", "/v1/session", { quiet: true }).then(enter, (problem) =>
      setOidc(problem.ways.split(", ").includes("oidc")),
    );
  }, []);
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      await logIn(token.trim());
      await enter();
    } catch (problem) {
      setError(/** @type {Error} */ (problem));
      setBusy(false);
    }
  };
  return html`<main class="login" id="main">
    <form class="login-card" onSubmit=${submit}>
      <div class="brand"><${Mark} /><span>Switchgear</span></div>
      <h1>Log in to the console</h1>
      <${ErrorNotice} error=${error} />
      ${oidc ? html`<a class="button primary wide" target="_self" href=${address("/login/oidc", { next })}>Log in with your company's account</a><p class="or">or with a token</p>` : null}
      <label class="field"><span>Token</span><input type="password" name="token" autocomplete="current-password" required autofocus value=${token} onInput=${(/** @type {any} */ event) => setToken(event.target.value)} /></label>
      <button type="submit" class=${`button wide ${oidc ? "" : "primary"}`} disabled=${busy || !token.trim()}>${busy ? "Logging in …" : "Log in"}</button>
      <p class="quiet"><code>switchgear token create</code> makes a token.</p>
    </form>
  </main>`;
}
