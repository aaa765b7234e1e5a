import { get, send, useResource } from "../api.js";
import { jsonProblem, prettyJson, withoutSpace } from "../exact-json.js";
import { bytes } from "../format.js";
import { html, useEffect, useState } from "../html.js";
import { Empty, ErrorNotice, Loaded } from "../parts/notices.js";
import { ReasonField } from "../parts/reason-form.js";
import { Clock } from "../parts/time.js";
import { toast } from "../parts/toasts.js";
import { mayOperate } from "../session.js";
import { setParams } from "../state.js";

/** @import { DeadLetter } from "../../../types.js" */

/** @param {{ route: { params: Record<string, string> } }} props */
export function DeadPage({ route }) {
  const { reason = "", letter = "", after = "" } = route.params;
  const resource = useResource("/v1/dead-letters", { reason, after });
  const [typed, setTyped] = useState(reason);
  useEffect(() => setTyped(reason), [reason]);
  return html`<div class="page">
    <form class="filters short" role="search" aria-label="Dead letters" onSubmit=${(/** @type {Event} */ event) => {
      event.preventDefault();
      setParams({ reason: typed, after: "" });
      resource.reload();
    }}>
      <label class="field"><span>Reason</span><input type="search" value=${typed} placeholder="Part of a reason" onInput=${(/** @type {any} */ event) => setTyped(event.target.value)} /></label>
      <button type="submit" class="button">Search</button>
    </form>
    <div class="columns dead">
      <section class="block" aria-label="Letters"><${Loaded} resource=${resource} rows=${8}>
        ${(
          /** @type {any} */ answer,
        ) => html`<${Letters} letters=${answer.items ?? answer.letters ?? []} chosen=${letter} narrowed=${reason !== "" || after !== ""} />
          ${answer.next ? html`<button type="button" class="button wide" onClick=${() => setParams({ after: answer.next })}>Older letters</button>` : null}`}
      <//></section>
      ${letter ? html`<${Letter} key=${letter} id=${letter} onRetried=${resource.reload} />` : null}
    </div>
  </div>`;
}

/** @param {{ letters: DeadLetter[], chosen: string, narrowed: boolean }} props */
function Letters({ letters, chosen, narrowed }) {
  if (!letters.length && narrowed) return html`<${Empty} title="No letter fits">Search for another reason.<//>`;
  if (!letters.length) return html`<${Empty} title="No dead letters">Every message so far was a valid event.<//>`;
  return html`<div class="scroll" tabindex="0"><table class="rows"><caption class="hidden-text">Dead letters</caption>
    <thead><tr><th scope="col">Time</th><th scope="col" class="grow">Reason</th><th scope="col" class="medium">Field</th><th scope="col" class="num roomy">Size</th></tr></thead>
    <tbody>${letters.map((each) => {
      const { id } = each;
      return html`<tr key=${id} class=${id === chosen ? "chosen" : ""}>
        <th scope="row"><button type="button" class="opener" data-item aria-pressed=${id === chosen} onClick=${() => setParams({ letter: id })}><${Clock} at=${each.at} /></button></th>
        <td class="cut grow" title=${each.reason}>${each.reason}</td><td class="medium mono">${each.field ?? "–"}</td><td class="num roomy">${bytes(each.bytes)}</td>
      </tr>`;
    })}</tbody>
  </table></div>`;
}

/** @param {{ id: string, onRetried: () => void }} props */
function Letter({ id, onRetried }) {
  const [letter, setLetter] = useState(/** @type {DeadLetter | null} */ (null));
  const [value, setValue] = useState("");
  const [reason, setReason] = useState("");
  const [error, setError] = useState(/** @type {Error | null} */ (null));
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    get(`/v1/dead-letters/${encodeURIComponent(id)}`).then((answer) => {
      const found = /** @type {DeadLetter} */ (answer);
      setLetter(found);
      setValue(prettyJson(found.text ?? ""));
    }, setError);
  }, [id]);
  const problem = jsonProblem(value);
  const retry = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      await send("POST", `/v1/dead-letters/${encodeURIComponent(id)}/retry`, {
        value: withoutSpace(value),
        reason,
      });
      toast({ title: "Sent again", text: `The dead letter ${id} was sent with your value.` });
      onRetried();
    } catch (failed) {
      setError(/** @type {Error} */ (failed));
    }
    setBusy(false);
  };
  return html`<section class="block" aria-label=${`Dead letter ${id}`}>
    <div class="toolbar"><h2>Letter <span class="mono">${id}</span></h2></div>
    <${ErrorNotice} error=${error} />
    ${
      letter
        ? html`<form class="letter" onSubmit=${retry}>
          <p class="why">${letter.reason}</p>
          <dl class="pairs">${[
            ["field", letter.field],
            ["topic", letter.topic],
            ["key", letter.key],
            ["time", letter.at],
          ]
            .filter(([, held]) => held)
            .map(([name, held]) => html`<div key=${name}><dt>${name}</dt><dd class="mono">${held}</dd></div>`)}</dl>
          <label class="field"><span>Value <em>fix it, then send it again</em></span><textarea class="mono editor" rows="14" spellcheck=${false} readonly=${!mayOperate()} value=${value} aria-invalid=${problem !== ""} onInput=${(/** @type {any} */ event) => setValue(event.target.value)}></textarea></label>
          ${letter.hex ? html`<details><summary>As bytes</summary><pre class="hex" tabindex="0">${letter.hex}</pre></details>` : null}
          ${
            mayOperate()
              ? html`<${ReasonField} value=${reason} onInput=${setReason} placeholder="Why it may be sent again" />
            <div class="toolbar">${problem ? html`<p class="bad-text">${problem}</p>` : html`<span></span>`}<button type="submit" class="button primary" disabled=${busy || problem !== "" || !reason.trim()}>${busy ? "Sending …" : "Send again"}</button></div>`
              : null
          }
        </form>`
        : null
    }
  </section>`;
}
