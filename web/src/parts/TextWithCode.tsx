import { Fragment } from "react";

/** A text of the server. Backticks mark commands and settings, as in its documentation. */
export function TextWithCode({ text }: { text: string }) {
  // Every second part was between backticks.
  return text
    .split("`")
    .map((part, index) =>
      index % 2 === 1 ? <code key={index}>{part}</code> : <Fragment key={index}>{part}</Fragment>,
    );
}
