// Who did something, in words. Pure.
import { commonTexts } from "@/texts/common";

interface Acted {
  actor: string;
  actor_email?: string | null;
}

// What replaces the e-mail address of a user who is deleted.
const DELETED = /^deleted-[0-9a-f-]{30}([0-9a-f]{6})@users\.invalid$/;

/** The e-mail address of a user; the end of the id of a user who was deleted; otherwise what acted. */
export function actorName({ actor, actor_email }: Acted): string {
  return actor_email ? nameOfUser(actor_email) : (commonTexts.actors[actor] ?? actor);
}

export function nameOfUser(email: string): string {
  const end = DELETED.exec(email)?.[1];
  return end ? commonTexts.deletedUser(end) : email;
}
