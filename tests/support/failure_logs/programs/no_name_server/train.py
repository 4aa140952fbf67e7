import requests
requests.get('https://huggingface.co/gpt2/resolve/main/config.json', timeout=5)
