"""How pages write numbers, marks and addresses."""
