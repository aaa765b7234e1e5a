import { send, useResource } from "../api.js";
import { html, useEffect, useState } from "../html.js";
import { useLive } from "../live.js";
import { ApplyDialog } from "../parts/apply-dialog.js";
import { Changes } from "../parts/changes.js";
import { Empty, ErrorNotice } from "../parts/notices.js";
import { PolicyForm } from "../parts/policy-form.js";
import { RangePicker } from "../parts/range.js";
import { ReplayOutcome } from "../parts/replay-outcome.js";
import { parsePolicy } from "../policy-toml.js";
import { currentPolicy, valuesIn, valuesOf } from "../policies.js";
import { mayOperate } from "../session.js";
import { setParams } from "../state.js";

/** @import { ReplayResult, ToolAnswer } from "../../../types.js" */

const SAMPLE = "failure_rate_threshold = 0.5\nminimum_number_of_calls = 20\nwait_duration_in_open_state_s = 30";

/** @param {{ route: { params: Record<string, string> } }} props */
export function LabPage({ route }) {
  const { store } = useLive();
  const pattern = route.params.pattern ?? "";
  const hours = Number(route.params.hours) || 24;
  const [text, setText] = useState(route.params.policy ?? "");
  useEffect(() => setText(route.params.policy ?? ""), [route.params.policy]);
  const [replay, setReplay] = useState(
    /** @type {{ present: ReplayResult, proposed: ReplayResult, hours: number, subject: string } | null} */ (null),
  );
  const [error, setError] = useState(/** @type {Error | null} */ (null));
  const [busy, setBusy] = useState(false);
  const [applying, setApplying] = useState("");
  const { policy, problem } = parsePolicy(text);
  const isTool = store.tools.has(pattern);
  const effective = /** @type {{ data: ToolAnswer | null, error: Error | null, reload: () => void }} */ (
    useResource(isTool ? `/v1/console/tool/${encodeURIComponent(pattern)}` : null, { hours: 1 })
  );
  const rules = useResource("/v1/policies");
  const present = isTool ? valuesOf(effective.data?.policy) : currentPolicy(rules.data, pattern);
  // A replay is for this. After a change it is old, also if its answer comes later.
  const subject = JSON.stringify([pattern, text, hours]);
  const shown = replay?.subject === subject ? replay : null;

  const onApplied = () => {
    effective.reload();
    rules.reload();
  };
  const run = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    setParams({ policy: text });
    try {
      const answer = /** @type {any} */ (
        // As it decides when it is enforced. A policy in force as metrics only would open nothing.
        await send("POST", "/v1/policies/replay", {
          [isTool ? "tool" : "pattern"]: pattern,
          policy: { ...policy, mode: "enforce" },
          hours,
        })
      );
      setReplay({ ...answer, hours, subject });
    } catch (problem) {
      setError(/** @type {Error} */ (problem));
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
        ) => setParams({ pattern: event.target.value })} />
        <datalist id="tools">${[...store.tools.keys()].slice(0, 500).map((name) => html`<option key=${name} value=${name}></option>`)}</datalist>
      </label>
      <${PolicyForm} text=${text} policy=${policy} present=${present} problem=${problem} onText=${setText} sample=${SAMPLE} />
    </form>
    <div class="lab-results">
      <${ErrorNotice} error=${error ?? (isTool ? effective.error : rules.error)} />
      <section class="block" aria-label="What changes"><div class="toolbar"><h2>What changes</h2></div>
        ${Object.keys(policy).length ? html`<${Changes} before=${valuesIn(present, policy)} after=${policy} />` : html`<${Empty} title="No value yet">Write a value on the left. What you leave out stays as it is.<//>`}
      </section>
      ${shown ? html`<${ReplayOutcome} replay=${shown} />` : html`<section class="block"><${Empty} title="Replay it on your own calls">See how often this policy would have opened, and what it would have saved, before any call depends on it.<//></section>`}
      ${
        shown && mayOperate()
          ? html`<section class="block apply" aria-label="Apply"><div><h2>Apply</h2><p class="quiet">Watch it first: as <b>metrics only</b> it refuses nothing and reports what would have opened.</p></div>
            <div class="commands"><button type="button" class="button primary" onClick=${() => setApplying("metrics_only")}>Apply as metrics only</button><button type="button" class="button" onClick=${() => setApplying("enforce")}>Enforce</button></div>
          </section>`
          : null
      }
    </div>
    ${applying ? html`<${ApplyDialog} pattern=${pattern} policy=${policy} present=${present} mode=${applying} onClose=${() => setApplying("")} onApplied=${onApplied} />` : null}
  </div>`;
}
