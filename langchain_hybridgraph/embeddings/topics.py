"""Topics of everyday life and their words, by language."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import MappingProxyType

from langchain_hybridgraph.text.analyzer import Analyzer

# The first character of a topic's name; no word of a text begins with it.
TOPIC = "#"

# One topic per line, its name first; the name is a word of it, too. A narrow topic (mother: mum, mom) may repeat words
# of a wide one (family).
_ENGLISH = """
job: work occupation profession career employer employee company office colleague boss manager business freelance
  self-employed hire shift salary earn wage living retired unemployed staff workplace trade nurse doctor surgeon
  dentist pharmacist paramedic therapist psychologist vet teacher teach professor lecturer tutor librarian engineer
  developer programmer architect designer scientist researcher analyst consultant accountant banker lawyer judge
  secretary receptionist cashier salesman saleswoman shop chef waiter waitress baker butcher barber hairdresser
  electrician plumber carpenter mechanic builder painter gardener farmer cleaner driver pilot sailor soldier
  firefighter policeman policewoman journalist writer editor translator photographer actor actress musician artist
  owner founder entrepreneur director technician administrator assistant intern apprentice contractor carer coach
  model biologist chemist physicist economist statistician minister priest
home: live house flat apartment address reside move rent tenant landlord landlady mortgage room bedroom flatmate
  roommate housemate neighbour neighbor neighbourhood neighborhood street city town village based
place: country city town village abroad region area location
rent: landlord landlady tenant mortgage lease
flatmate: roommate housemate share
neighbour: neighbor
family: relative mother mum mom father dad parent brother sister sibling child children kid son daughter baby husband
  wife grandmother grandma granny nan grandfather grandpa grandparent grandchild grandson granddaughter aunt uncle
  cousin niece nephew twin
partner: husband wife spouse married marriage wedding fiance fiancee engaged girlfriend boyfriend anniversary divorce
  widow
child: children kid son daughter baby toddler twin teenager pregnant expecting
parent: mother mum mom father dad
mother: mum mom
father: dad
sibling: brother sister
grandmother: grandma granny nan
grandfather: grandpa
friend: mate buddy best friendship
pet: dog puppy cat kitten rabbit hamster guinea parrot budgie bird goldfish fish tortoise turtle horse pony breed
  labrador retriever terrier poodle spaniel beagle collie dachshund tabby siamese vet
dog: puppy labrador retriever terrier poodle spaniel beagle collie dachshund shepherd breed
cat: kitten tabby siamese
food: eat meal dish kitchen cuisine breakfast lunch dinner supper snack cook recipe restaurant bake taste hungry bread
  rice pasta noodle pizza burger salad soup cheese egg milk butter yoghurt cream ice meat beef pork chicken fish
  seafood shellfish sushi fruit apple vegetable nut peanut chocolate cake dessert sweet spicy vegetarian vegan gluten
diet: vegetarian vegan meat allergic allergy intolerant gluten lactose celiac coeliac dairy halal kosher pescatarian
  avoid eat food
allergy: allergic intolerant reaction ill sick avoid nut peanut shellfish pollen hay dust dairy
dairy: lactose milk cheese butter cream yoghurt ice
meat: beef pork chicken ham bacon sausage steak vegetarian vegan
gluten: bread wheat pasta flour celiac coeliac
drink: coffee tea espresso cappuccino latte beer wine whisky cocktail alcohol juice water soda thirsty
health: ill sick disease condition diagnosis symptom doctor hospital clinic medicine medication drug pill tablet
  treatment therapy surgery operation pain ache headache migraine asthma diabetes allergy allergic cancer cold flu
  fever injury injured hurt broke broken fracture sprain knee ankle shoulder blood pressure heart
headache: migraine
injury: injured hurt broke broken fracture sprain wound accident
medicine: medication drug pill tablet prescription insulin inhaler antibiotic
birth: born birthday age birthdate
age: old turn year birthday
childhood: grew grow raised born native hometown origin upbringing young
name: called nickname surname
travel: trip holiday vacation journey tour fly flight plane airport abroad visit cruise hotel passport backpacking
flight: fly plane airport depart
vehicle: car roadster convertible drive driver van truck motorbike motorcycle scooter bike bicycle cycle commute bus
  train tram underground subway
car: roadster convertible coupe saloon hatchback suv drive automobile toyota honda nissan mazda ford volkswagen bmw
  audi mercedes opel peugeot renault fiat skoda volvo tesla hyundai kia
bicycle: bike cycle
commute: cycle bus train tram drive walk
device: computer laptop notebook pc desktop tablet phone mobile smartphone gadget
computer: laptop notebook pc desktop mac macbook thinkpad windows linux ubuntu
phone: mobile smartphone iphone android pixel samsung galaxy
music: song sing singer band orchestra choir concert album listen playlist jazz rock pop classical opera techno
  hip-hop blues folk metal instrument guitar piano violin cello drum bass flute saxophone trumpet
instrument: guitar piano keyboard violin cello drum bass flute saxophone trumpet clarinet harp accordion
film: movie cinema actor actress director series show watch television tv netflix documentary
book: read novel author writer fiction poem poetry poet story library literature
author: writer novelist poet
art: artist painter painting draw sketch sculpture sculptor gallery museum exhibition
photography: camera photo picture photographer lens shoot
game: chess console xbox playstation nintendo board cards puzzle
sport: exercise gym fitness workout training trainer team match club football soccer rugby cricket tennis badminton
  squash basketball volleyball hockey golf swim run runner jog marathon race cycling yoga pilates ski snowboard surf
  climb hike row boxing karate judo ride
football: soccer club team arsenal chelsea liverpool barcelona supporter
fan: support follow
race: marathon triathlon run
hobby: pastime leisure spare weekend interest pottery painting drawing sketch knitting sewing crochet gardening
  photography chess dancing singing choir guitar piano hiking climbing cycling fishing baking woodwork collect class
  club craft
language: speak spoken fluent bilingual english german french spanish italian portuguese dutch swedish polish russian
  turkish arabic hebrew hindi chinese mandarin japanese korean
education: study school university college degree student pupil graduate exam test course class lesson learn subject
  maths mathematics physics chemistry biology history phd master bachelor diploma
exam: test pass certificate
learn: study lesson course
like: love enjoy favourite favorite prefer best fond fan keen
dislike: hate stand bear annoy loathe
fear: afraid scared frightened terrified phobia anxious
software: app tool editor program coding python javascript typescript java rust excel windows linux
goal: plan dream aim hope intend want target resolution ambition save train
routine: habit daily usually schedule morning evening weekday always
contact: email mail address phone number reach telephone
secret: code password pin key combination wifi login
garden: plant flower vegetable lawn balcony grow
shopping: buy bought store supermarket market order purchase
politics: vote party election
event: party celebration festival concert show conference ceremony ticket
money: pay payment cost price expensive cheap budget save bank loan debt salary rent euro dollar pound
cost: price pay payment rent euro dollar pound
sleep: asleep bed bedtime wake woke awake alarm nap tired insomnia
wake: alarm bed
appointment: meeting schedule calendar call reservation booking deadline interview
meeting: appointment call
date: monday tuesday wednesday thursday friday saturday sunday january february march april june july august september
  october november december
morning: early breakfast dawn
evening: night dinner dusk
colour: color red orange yellow green blue purple pink brown black white grey gray
favourite: favorite best prefer
clothes: wear shirt dress shoe size jacket trousers
smoke: smoker cigarette tobacco
volunteer: charity donate
weather: rain sunny snow hot cold warm humid
body: hair eye tall height weight glasses beard tattoo
religion: church mosque synagogue temple pray christian catholic protestant muslim jewish hindu buddhist atheist faith
answer: reply response respond short long brief concise detailed tone formal informal style format bullet
"""

_LANGUAGES = {"english": _ENGLISH}


@functools.cache
def topics_of_words(language: str) -> Mapping[str, tuple[str, ...]]:
    """Return the topics of each word, as the analyzer of this language writes it; empty for a language without a table.

    >>> topics_of_words("english")["mum"]
    ('#family', '#parent', '#mother')
    """
    analyzer = Analyzer(language)
    topics: dict[str, tuple[str, ...]] = {}
    for line in _LANGUAGES.get(language, "").replace("\n  ", " ").split("\n"):
        name, _, words = line.partition(":")
        for word in dict.fromkeys(analyzer.words(f"{name} {words}")):
            topics[word] = (*topics.get(word, ()), f"{TOPIC}{name}")
    return MappingProxyType(topics)
