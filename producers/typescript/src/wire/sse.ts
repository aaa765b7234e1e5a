/** One server-sent event. */
export interface ServerEvent {
  readonly event: string;
  readonly data: string;
  /** The last id that the stream has named, up to and including this event. */
  readonly id: string;
}

/** The most characters of one event. A gateway that sends more is broken. */
const MOST_CHARACTERS = 64 * 1024 * 1024;

/**
 * Read server-sent events from a response's body, as the HTML standard says.
 *
 * @param heard Called whenever something arrives, comments too.
 * @throws RangeError One event is too long.
 */
export async function* serverEvents(body: ReadableStream<Uint8Array>, heard: () => void): AsyncGenerator<ServerEvent> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let waiting: string[] = [];
  let length = 0;
  let id = "";
  let event = "";
  let data: string[] = [];
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) {
        return;
      }
      heard();
      const text = decoder.decode(value, { stream: true });
      length += text.length;
      if (length > MOST_CHARACTERS) {
        throw new RangeError(`An event of the gateway has more than ${MOST_CHARACTERS} characters.`);
      }
      waiting.push(text);
      const ended = /[\r\n]/.test(text) || waiting.at(-2)?.endsWith("\r"); // a part may begin after the first half of \r\n
      if (!ended) {
        continue;
      }
      const lines = waiting.join("").split(/\r\n|\n|\r(?!$)/);
      const rest = lines.pop()!;
      for (const line of lines) {
        if (line === "") {
          if (data.length > 0) {
            yield { event: event === "" ? "message" : event, data: data.join("\n"), id };
          }
          event = "";
          data = [];
          length = 0;
          continue;
        }
        const [, name, content] = /^([^:]*)(?:: ?([^]*))?$/.exec(line) as unknown as [
          string,
          string,
          string | undefined,
        ];
        if (name === "event") {
          event = content ?? "";
        } else if (name === "data") {
          data.push(content ?? "");
        } else if (name === "id" && !content?.includes("\0")) {
          id = content ?? "";
        }
      }
      waiting = [rest];
    }
  } finally {
    await reader.cancel().catch(() => {}); // the connection is gone already
  }
}
