// Where the values of a form may contain placeholders: steps of pipelines. Elsewhere there are none.
import { type ComponentType, createContext, useContext } from "react";

export interface ControlProps {
  value: string;
  onChange: (value: string) => void;
  isLine: boolean;
  placeholder?: string;
}

export interface Templates {
  /** Takes the place of a field for text. */
  Control: ComponentType<ControlProps>;
  isTemplate: (value: unknown) => value is string;
  /** The text to begin with where a value becomes a placeholder. */
  placeholder: (name: string) => string;
}

export const TemplateContext = createContext<Templates | null>(null);

export function useTemplates(): Templates | null {
  return useContext(TemplateContext);
}
