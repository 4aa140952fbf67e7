"""What sites report about the attempts that they carry out, written into rows."""
