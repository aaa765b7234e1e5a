/** Half of a surrogate pair, as `JSON.stringify` writes it. A cut through an emoji leaves one, and no UTF-8 has it. */
const HALF_PAIR = /(?<!\\)((?:\\\\)*)\\ud[89a-f][0-9a-f]{2}/g;

/** Return a value as JSON that every reader can decode. */
export function toJson(value: unknown): string {
  return JSON.stringify(value).replace(HALF_PAIR, "$1?");
}

/** Return a document as JSON. Metadata that JSON can't hold are replaced by the reason: the rest counts all the same. */
export function withMetadataToJson(document: { readonly metadata?: unknown }): string {
  try {
    return toJson(document);
  } catch (error) {
    return toJson({ ...document, metadata: { unreadable: String(error) } });
  }
}
