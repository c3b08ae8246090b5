"""What people see of their results: lists and search, actions on several jobs, downloads as zip, public links."""
