// State of an invitation in one word. Pure.
import type { Schemas } from "@/api/types";
import type { Tone } from "@/design";

export type InvitationState = "accepted" | "revoked" | "expired" | "failed" | "open";

export const INVITATION_TONES: Record<InvitationState, Tone> = {
  accepted: "ok",
  revoked: "plain",
  expired: "plain",
  failed: "bad",
  open: "warn",
};

export function invitationState(invitation: Schemas["Invitation"], now: Date): InvitationState {
  if (invitation.accepted_at) return "accepted";
  if (invitation.revoked_at) return "revoked";
  if (Date.parse(invitation.expires_at) <= now.getTime()) return "expired";
  return invitation.mail_error && !invitation.mail_sent_at ? "failed" : "open";
}
