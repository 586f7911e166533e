"""For authors of tool files. Workers run this folder (`python FOLDER serve FILE`); inside is `jackfield_tool`."""
