/** Decodes the text of a file by its byte order mark, otherwise as UTF-8. Shells on Windows write UTF-16. Pure. */
export function decoded(content: ArrayBuffer): string {
  const [first, second] = new Uint8Array(content, 0, Math.min(2, content.byteLength));
  const encoding =
    first === 0xff && second === 0xfe ? "utf-16le" : first === 0xfe && second === 0xff ? "utf-16be" : "utf-8";
  return new TextDecoder(encoding).decode(content);
}
