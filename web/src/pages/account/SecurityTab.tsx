import { PasswordForm } from "./PasswordForm";
import { SessionList } from "./SessionList";

export function SecurityTab() {
  return (
    <div className="grid gap-8">
      <PasswordForm />
      <SessionList />
    </div>
  );
}
