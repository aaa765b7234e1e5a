/** What the wrappers of agent frameworks tell the model about the tools of a run. */
import { mintId } from "../wire/ids.js";
import { listedName, circuitIn, renamer, type NameMap } from "./tool-name.js";

/** Return the model's name of each tool by its circuit: for `notice`, which then names these alone. */
export function namesByCircuit(
  tools: readonly (readonly [name: string | null, tool: unknown])[],
  circuitOf?: NameMap,
): Record<string, string> {
  const circuitName = renamer(circuitOf);
  const found: Record<string, string> = {};
  for (const [given, tool] of tools) {
    const name = given ?? listedName(tool);
    if (name !== null) {
      found[circuitIn(tool) ?? circuitName(name)] = name;
    }
  }
  return found;
}

/** Return the answer that ends a run in place of the model's. */
export function endOfRun(lastRefusal: string): string {
  return `The run ends: too many tool calls were refused. ${lastRefusal}`;
}

interface Conversation<M> {
  readonly id: string;
  /** The messages that were added, how much of the history comes before each, and the last of that. */
  readonly notes: { readonly place: number; readonly after: M; readonly message: M }[];
}

/**
 * The messages about outages in the conversations of an agent. Frameworks send the history anew with each request, and each message stays
 * where it was first put: if it moved, the prompt would change from there on, and the provider would read the rest again.
 */
export class Told<M extends object> {
  readonly #conversations = new WeakMap<M, Conversation<M>>();

  /**
   * @param say Returns what there is to say to the conversation of that name now. Usually it is empty.
   * @param make Makes the framework's message of a text.
   */
  constructor(
    private readonly say: (conversation: string, names: Readonly<Record<string, string>>) => string,
    private readonly make: (text: string) => M,
  ) {}

  /**
   * Return the history with the messages of its conversation, and with a new one at its end if there is something to say.
   *
   * @param names The model's names of the agent's tools, by circuit.
   */
  in(history: readonly M[], names: Readonly<Record<string, string>>): readonly M[] {
    const [first] = history;
    if (first === undefined) {
      return history;
    }
    let known = this.#conversations.get(first);
    if (known === undefined || !known.notes.every(({ place, after }) => history[place - 1] === after)) {
      known = { id: mintId(), notes: [] }; // it begins, or was shortened: it is told again
      this.#conversations.set(first, known);
    }
    const said = this.say(known.id, names);
    if (said !== "") {
      known.notes.push({ place: history.length, after: history.at(-1)!, message: this.make(said) });
    }
    const found = [...history];
    for (const { place, message } of [...known.notes].reverse()) {
      if (JSON.stringify(history[place]) !== JSON.stringify(message)) {
        found.splice(place, 0, message); // some frameworks keep what they were given
      }
    }
    return found;
  }
}
