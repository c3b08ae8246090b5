export const signInTexts = {
  title: "Sign in",
  text: "Welcome back.",
  sessionEnded: "Your session has ended. Sign in again to go on where you were; your input is kept.",
  linkUsed: "The link was used before or has expired. Sign in with the email and password that the demo printed, or start it again.",
  email: "Email",
  password: "Password",
  submit: "Sign in",
  forgot: "Forgot your password?",
  emailFirst: "Fill in your email first.",
  noAccount: "No account? Ask the operator of this installation for an invitation.",
};
