"""A model whose provider breaks, called through LiteLLM. The providers are made up: no key, no network.

pip install "switchgear[litellm]"
"""

import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # don't fetch prices

import litellm

from switchgear import BreakerPolicy, Switchgear
from switchgear.integrations.litellm import GuardedModels

litellm.suppress_debug_info = True

QUESTION = [{"role": "user", "content": "How is the weather in Oslo?"}]


def main() -> None:
    """Ask three times."""
    gear = Switchgear.local(
        local_policies=BreakerPolicy(consecutive_failures=2),
        fallbacks={"model:forecaster-large": "model:forecaster-small"},
    )
    router = litellm.Router(
        model_list=[
            {
                "model_name": "forecaster-large",
                "litellm_params": {"model": "gpt-4o", "mock_response": "litellm.InternalServerError"},
            },
            {
                "model_name": "forecaster-small",
                "litellm_params": {"model": "gpt-4o-mini", "mock_response": "usually mild in Oslo"},
            },
        ],
        num_retries=0,
        disable_cooldowns=True,
    )
    models = GuardedModels(gear, router)
    with gear.session("weather") as session:
        for call in range(1, 4):
            print(f"call {call}")
            print("  available:", ", ".join(models.available(["forecaster-large", "forecaster-small"])))
            try:
                found = models.completion("forecaster-large", QUESTION)
            except litellm.InternalServerError as error:
                print(f"  forecaster-large: {str(error).splitlines()[0]}")
            else:
                print(f"  {found.model}: {found.choices[0].message.content}")
        print(gear.notice())
        print("tokens:", session.status().tokens)


main()
