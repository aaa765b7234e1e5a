import { send, useResource } from "../api.js";
import { count, duration, plural, usd } from "../format.js";
import { html, useState } from "../html.js";
import { useLive } from "../live.js";
import { Band } from "../parts/band.js";
import { Changes } from "../parts/changes.js";
import { Empty, ErrorNotice } from "../parts/notices.js";
import { PolicyForm } from "../parts/policy-form.js";
import { RangePicker } from "../parts/range.js";
import { ExpiryField, ReasonField } from "../parts/reason-form.js";
import { Sheet } from "../parts/sheet.js";
import { toast } from "../parts/toasts.js";
import { parsePolicy } from "../policy-toml.js";
import { currentPolicy } from "../policies.js";
import { mayOperate } from "../session.js";
import { spansOf } from "../shapes.js";
import { setParams } from "../state.js";
import { undo } from "../undo.js";

/** @import { PolicyValue, ReplayResult, ToolAnswer } from "../../../types.js" */

const SAMPLE = "failure_rate_threshold = 0.5\nminimum_number_of_calls = 20\nwait_duration_in_open_state_s = 30";

/** @param {{ route: { params: Record<string, string> } }} props */
export function LabPage({ route }) {
  const { store } = useLive();
  const pattern = route.params.pattern ?? "";
  const hours = Number(route.params.hours) || 24;
  const [text, setText] = useState(route.params.policy ?? "");
  const [replay, setReplay] = useState(
    /** @type {{ present: ReplayResult, proposed: ReplayResult, hours: number } | null} */ (null),
  );
  const [error, setError] = useState(/** @type {Error | null} */ (null));
  const [busy, setBusy] = useState(false);
  const [applying, setApplying] = useState("");
  const { policy, problem } = parsePolicy(text);
  const isTool = store.tools.has(pattern);
  const effective = /** @type {{ data: ToolAnswer | null }} */ (
    useResource(isTool ? `/v1/console/tool/${encodeURIComponent(pattern)}` : null, { hours: 1 })
  );
  const rules = useResource("/v1/policies");
  const present = isTool ? valuesOf(effective.data?.policy) : currentPolicy(rules.data, pattern);

  const run = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    setParams({ policy: text });
    try {
      const answer = /** @type {any} */ (
        await send("POST", "/v1/policies/replay", { [isTool ? "tool" : "pattern"]: pattern, policy, hours })
      );
      setReplay({ ...answer, hours });
    } catch (problem) {
      setError(/** @type {Error} */ (problem));
      setReplay(null);
    }
    setBusy(false);
  };

  const ready = pattern !== "" && !problem && Object.keys(policy).length > 0;
  return html`<div class="page lab">
    <form class="block lab-form" onSubmit=${run} aria-label="Policy">
      <div class="toolbar"><h2>Policy</h2><${RangePicker} hours=${hours} /><button type="submit" class="button primary" disabled=${!ready || busy}>${busy ? "Replaying …" : "Replay"}</button></div>
      <label class="field"><span>For <em>a tool, or a glob</em></span>
        <input list="tools" required placeholder="mcp:weather:*" value=${pattern} onInput=${(
          /** @type {any} */ event,
        ) => {
          setReplay(null);
          setParams({ pattern: event.target.value });
        }} />
        <datalist id="tools">${[...store.tools.keys()].slice(0, 500).map((name) => html`<option key=${name} value=${name}></option>`)}</datalist>
      </label>
      <${PolicyForm} text=${text} policy=${policy} present=${present} problem=${problem} onText=${(
        /** @type {string} */ value,
      ) => {
        setText(value);
        setReplay(null);
      }} sample=${SAMPLE} />
    </form>
    <div class="lab-results">
      <${ErrorNotice} error=${error} />
      <section class="block" aria-label="What changes"><div class="toolbar"><h2>What changes</h2></div>
        ${Object.keys(policy).length ? html`<${Changes} before=${pick(present, policy)} after=${policy} />` : html`<${Empty} title="No value yet">Write a value on the left. What you leave out stays as it is.<//>`}
      </section>
      ${replay ? html`<${Outcome} replay=${replay} />` : html`<section class="block"><${Empty} title="Replay it on your own calls">See how often this policy would have opened, and what it would have saved, before any call depends on it.<//></section>`}
      ${
        replay && mayOperate()
          ? html`<section class="block apply" aria-label="Apply"><div><h2>Apply</h2><p class="quiet">Watch it first: as <b>metrics only</b> it refuses nothing and reports what would have opened.</p></div>
            <div class="commands"><button type="button" class="button primary" onClick=${() => setApplying("metrics_only")}>Apply as metrics only</button><button type="button" class="button" onClick=${() => setApplying("enforce")}>Enforce</button></div>
          </section>`
          : null
      }
    </div>
    ${applying ? html`<${ApplyDialog} pattern=${pattern} policy=${policy} present=${present} mode=${applying} onClose=${() => setApplying("")} onApplied=${rules.reload} />` : null}
  </div>`;
}

/** @param {PolicyValue[] | undefined} values @returns {Record<string, unknown>} */
const valuesOf = (values) => Object.fromEntries((values ?? []).map((value) => [value.setting, value.value]));

/** @param {Record<string, unknown>} present @param {Record<string, unknown>} policy */
const pick = (present, policy) => Object.fromEntries(Object.keys(policy).map((name) => [name, present[name]]));

/** @param {{ replay: { present: ReplayResult, proposed: ReplayResult, hours: number } }} props */
function Outcome({ replay }) {
  const { present, proposed } = replay;
  const until = Date.now();
  const from = until - replay.hours * 3_600_000;
  /** @type {[string, (result: ReplayResult) => string, (result: ReplayResult) => number | null, boolean][]} */
  const rows = [
    ["Opens", (each) => count(each.opens), (each) => each.opens, false],
    ["False opens", (each) => count(each.false_opens), (each) => each.false_opens, false],
    ["Time open", (each) => duration(each.minutes_open * 60), (each) => each.minutes_open, false],
    ["Calls saved", (each) => count(each.calls_saved), (each) => each.calls_saved, true],
    ["Tokens saved", (each) => count(each.tokens_saved), (each) => each.tokens_saved, true],
    ["Money saved", (each) => usd(each.usd_saved), (each) => each.usd_saved, true],
  ];
  return html`<section class="block" aria-label="Replay">
    <div class="toolbar"><h2>On the calls of the last ${duration(replay.hours * 3600)}</h2></div>
    <p class="verdict">It would have opened ${plural(proposed.opens, "time")}${proposed.false_opens === null ? "" : `, ${count(proposed.false_opens)} of them without need`}, and saved ${plural(proposed.calls_saved, "call")}${proposed.tokens_saved ? ` and ${count(proposed.tokens_saved)} tokens` : ""}.</p>
    <table class="rows compare">
      <thead><tr><th scope="col"></th><th scope="col" class="num">Present</th><th scope="col" class="num">Proposed</th><th scope="col" class="num">Change</th></tr></thead>
      <tbody>${rows.map(([name, show, value, more]) => html`<tr key=${name}><th scope="row">${name}</th><td class="num">${show(present)}</td><td class="num"><b>${show(proposed)}</b></td><td class="num"><${Difference} before=${value(present)} after=${value(proposed)} better=${name === "Opens" || name === "Time open" ? null : more} /></td></tr>`)}</tbody>
    </table>
    <div class="lanes">
      <div class="lane"><span>Present</span><${Band} spans=${spansOf(present.transitions, from, until)} from=${from} until=${until} label="Present policy" /></div>
      <div class="lane"><span>Proposed</span><${Band} spans=${spansOf(proposed.transitions, from, until)} from=${from} until=${until} label="Proposed policy" /></div>
    </div>
  </section>`;
}

/** @param {{ before: number | null, after: number | null, better: boolean | null }} props `better` is true if more is better */
function Difference({ before, after, better }) {
  if (before === null || after === null || before === after) return html`<span class="quiet">same</span>`;
  const up = after > before;
  const tone = better === null ? "" : up === better ? "good-text" : "bad-text";
  const digits = Math.abs(after - before) < 10 && !Number.isInteger(after - before) ? 2 : 0;
  return html`<span class=${tone}>${up ? "+" : "−"}${digits ? Math.abs(after - before).toFixed(digits) : count(Math.abs(after - before))}</span>`;
}

/** @param {{ pattern: string, policy: Record<string, unknown>, present: Record<string, unknown>, mode: string, onClose: () => void, onApplied: () => void }} props */
function ApplyDialog({ pattern, policy, present, mode, onClose, onApplied }) {
  const [reason, setReason] = useState("");
  const [expiry, setExpiry] = useState(/** @type {number | null} */ (mode === "metrics_only" ? 86_400 : null));
  const [error, setError] = useState(/** @type {Error | null} */ (null));
  const [busy, setBusy] = useState(false);
  const title = mode === "enforce" ? "Enforce the policy" : "Apply as metrics only";
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setBusy(true);
    try {
      const answer = /** @type {{ audit_id?: string }} */ (
        await send("PUT", `/v1/policies/${encodeURIComponent(pattern)}`, { policy, mode, reason, expires_in_s: expiry })
      );
      onApplied();
      toast({
        title,
        text: pattern,
        action: answer.audit_id
          ? {
              label: "Undo",
              run: () => void undo(answer.audit_id ?? "", `${title}: ${pattern}`, `Undo of: ${reason}`).then(onApplied),
            }
          : undefined,
      });
      onClose();
    } catch (problem) {
      setError(/** @type {Error} */ (problem));
      setBusy(false);
    }
  };
  return html`<${Sheet} label=${title} onClose=${onClose}><form onSubmit=${submit}>
    <div class="sheet-body">
      <div class="sheet-head"><h2>${title}</h2><p class="quiet">For <code>${pattern}</code>. ${mode === "enforce" ? "From now on it refuses calls by these values." : "It refuses nothing. What would have opened is reported."}</p></div>
      <${ErrorNotice} error=${error} />
      <section class="preview" aria-label="What changes"><${Changes} before=${pick({ mode: "enforce", ...present }, { ...policy, mode })} after=${{ ...policy, mode }} /></section>
      <${ExpiryField} value=${expiry} onChange=${setExpiry} />
      <${ReasonField} value=${reason} onInput=${setReason} />
    </div>
    <div class="sheet-foot"><button type="button" class="button" onClick=${onClose}>Cancel</button><button type="submit" class="button primary" disabled=${busy || !reason.trim()}>${busy ? "Sending …" : title}</button></div>
  </form><//>`;
}
