import { count } from "../format.js";
import { html, useState } from "../html.js";
import { useLive } from "../live.js";
import { badProblem, headOf, problemsOf } from "../problems.js";

/** The first line of every page while a part of the system does not work: which, since when, what it means, what to do. */
export function ProblemBanner() {
  const { store } = useLive();
  const [open, setOpen] = useState(false);
  const problems = problemsOf(store.data);
  if (!problems.length) return html`<div></div>`;
  const now = store.serverNow(Date.now());
  const more = problems.length - 1;
  // Nothing in it changes with the time, so a screen reader reads it once.
  return html`<div class=${`problem-banner ${badProblem(store.data) ? "bad" : "note"}`} role="alert">
    <ul>${(open ? problems : problems.slice(0, 1)).map(
      (problem) =>
        html`<li key=${problem.what}><b>${headOf(problem, now)}</b> <span>${problem.means}</span> <span>${problem.todo}</span></li>`,
    )}</ul>
    ${more ? html`<button type="button" class="link" aria-expanded=${open} onClick=${() => setOpen(!open)}>${open ? "Show the first only" : `and ${count(more)} more`}</button>` : null}
  </div>`;
}
