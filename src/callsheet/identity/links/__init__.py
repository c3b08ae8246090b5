"""Links that let a person into an account: invitations, password resets, and their mails."""
