// Who did something, in words. Pure.
import { commonTexts } from "@/texts/common";

interface Acted {
  actor: string;
  actor_email?: string | null;
}

/** The e-mail address of a user; the id of a user who was deleted; otherwise what acted. */
export function actorName({ actor, actor_email }: Acted): string {
  return actor_email ?? commonTexts.actors[actor] ?? actor;
}
