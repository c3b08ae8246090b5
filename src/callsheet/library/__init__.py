"""The library of a user's results: lists and search, actions on several jobs, downloads as zip, and public links."""
