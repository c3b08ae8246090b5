export const signInTexts = {
  title: "Sign in",
  text: "Welcome back.",
  sessionEnded: "Your session has ended. Sign in again to go on where you were; your input is kept.",
  email: "Email",
  password: "Password",
  submit: "Sign in",
  noAccount: "No account? Ask the operator of this installation for an invitation.",
};
