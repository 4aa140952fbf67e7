import json

def read(text):
    try:
        return json.loads(text)
    except ValueError as error:
        raise RuntimeError('config.json is broken') from error

read('{"lr": }')
