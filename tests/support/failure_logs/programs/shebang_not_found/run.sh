#!/opt/none/python
print(1)
