import { PasswordForm } from "./PasswordForm";
import { SessionSection } from "./SessionSection";

export function SecurityTab() {
  return (
    <div className="grid gap-8">
      <PasswordForm />
      <SessionSection />
    </div>
  );
}
