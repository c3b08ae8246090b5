// Names that a text of a step can use. The card of the step provides them to all its fields.
import { createContext, useContext } from "react";
import type { Surroundings } from "./variables";

export const SurroundingsContext = createContext<Surroundings>({ isFirst: true, takesParent: false, known: [] });

export function useSurroundings(): Surroundings {
  return useContext(SurroundingsContext);
}
