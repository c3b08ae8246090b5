const LENGTH = 20;
// The alphabet has no characters that look alike: 0 O, 1 l I.
const CHARACTERS = "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789";

/** A random password: 20 characters out of 56 are 116 bits. The groups make it easy to read aloud. */
export function freshPassword(): string {
  const characters: string[] = [];
  while (characters.length < LENGTH) {
    // 224 is the largest multiple of 56 below 256, so every character is equally likely.
    const fair = [...crypto.getRandomValues(new Uint8Array(LENGTH))].filter((byte) => byte < 224);
    characters.push(...fair.map((byte) => CHARACTERS.charAt(byte % CHARACTERS.length)));
  }
  return (characters.slice(0, LENGTH).join("").match(/.{5}/g) ?? []).join("-");
}
