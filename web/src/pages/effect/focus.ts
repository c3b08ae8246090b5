/** Focuses the first field with a problem. The problems must be drawn before one of them can be focused. */
export function focusFirstProblem(form: HTMLFormElement | null): void {
  requestAnimationFrame(() => {
    const field = form?.querySelector<HTMLElement>("[aria-invalid=true]");
    const target = field?.tabIndex === -1 ? field.parentElement?.querySelector<HTMLElement>("button") : field;
    target?.focus();
  });
}
