import { Clapperboard } from "lucide-react";
import { Button } from "@/design";
import { Refusal } from "@/parts/Refusal";
import { signInTexts } from "@/texts/sign-in";
import { useEnterDemo } from "./useSignIn";

/** On the machine of a demo, one click signs in to its account. */
export function DemoEntry({ email }: { email: string }) {
  const enter = useEnterDemo();
  return (
    <div className="grid gap-2.5">
      <Button
        look="go"
        size="l"
        autoFocus
        busy={enter.isPending}
        onClick={() => enter.mutate()}
        icon={<Clapperboard size={18} aria-hidden />}
      >
        {signInTexts.demo}
      </Button>
      {enter.error ? (
        <Refusal error={enter.error} />
      ) : (
        <p className="text-s text-muted">{signInTexts.demoText(email)}</p>
      )}
      <div className="mt-2 flex items-center gap-3 text-s text-muted before:h-px before:grow before:bg-line after:h-px after:grow after:bg-line">
        {signInTexts.or}
      </div>
    </div>
  );
}
