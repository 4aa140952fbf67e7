open('/etc/shadow').read()
