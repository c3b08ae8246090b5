// Placeholders in the values of a form. Only steps of pipelines provide this context.
import { type ComponentType, createContext, useContext } from "react";

export interface ControlProps {
  value: string;
  onChange: (value: string) => void;
  isLine: boolean;
  placeholder?: string;
}

export interface Templates {
  /** Replaces a text field. */
  Control: ComponentType<ControlProps>;
  isTemplate: (value: unknown) => value is string;
  /** First text when a value becomes a placeholder. */
  placeholder: (name: string) => string;
}

export const TemplateContext = createContext<Templates | null>(null);

export function useTemplates(): Templates | null {
  return useContext(TemplateContext);
}
